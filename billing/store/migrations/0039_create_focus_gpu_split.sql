-- blocking: no. For finance, never beside the tenants' dataset: the GPU bill, each engine-hour split among tenants and the named owners of the rest.
-- FOCUS 1.4 Cost and Usage; resource and SKU stay those of the GPU, who it is for is in Allocated*. Costs of an engine-hour sum to its price,
-- and ratios to 1: they are dealt as differences of running sums, in steps of 1e-12.
CREATE VIEW focus_gpu_split AS
SELECT
    concat('{"Elements":[{"AllocatedRatio":', toString(toDecimal128(part.ratio_steps, 12) / 1000000000000), ',"UsageUnit":"GPU-Seconds","UsageQuantity":', toString(toDecimal128(part.gpu_ns, 9) / 1000000000), '}]}') AS AllocatedMethodDetails,
    'engine-step/1' AS AllocatedMethodId,
    part.allocated AS AllocatedResourceId,
    if(part.owner = 'tenants' AND known.name != '', known.name, part.allocated) AS AllocatedResourceName,
    concat('{"loraledger/engine":', toJSONString(part.engine), '}') AS AllocatedTags,
    CAST(NULL, 'Nullable(String)') AS AvailabilityZone,
    part.cost AS BilledCost,
    'gpu-fleet' AS BillingAccountId,
    'GPU fleet' AS BillingAccountName,
    'Provider' AS BillingAccountType,
    part.currency AS BillingCurrency,
    toDateTime(toStartOfMonth(part.hour, 'UTC') + INTERVAL 1 MONTH, 'UTC') AS BillingPeriodEnd,
    toDateTime(toStartOfMonth(part.hour, 'UTC'), 'UTC') AS BillingPeriodStart,
    CAST(NULL, 'Nullable(String)') AS CapacityReservationId,
    CAST(NULL, 'Nullable(String)') AS CapacityReservationStatus,
    'Usage' AS ChargeCategory,
    CAST(NULL, 'Nullable(String)') AS ChargeClass,
    concat('GPU time of engine ', part.engine, ' allocated to ', part.allocated) AS ChargeDescription,
    'Usage-Based' AS ChargeFrequency,
    toDateTime(part.hour, 'UTC') + INTERVAL 1 HOUR AS ChargePeriodEnd,
    toDateTime(part.hour, 'UTC') AS ChargePeriodStart,
    CAST(NULL, 'Nullable(String)') AS CommitmentDiscountCategory,
    CAST(NULL, 'Nullable(String)') AS CommitmentDiscountId,
    CAST(NULL, 'Nullable(String)') AS CommitmentDiscountName,
    CAST(NULL, 'Nullable(Decimal(38, 26))') AS CommitmentDiscountQuantity,
    CAST(NULL, 'Nullable(String)') AS CommitmentDiscountStatus,
    CAST(NULL, 'Nullable(String)') AS CommitmentDiscountType,
    CAST(NULL, 'Nullable(String)') AS CommitmentDiscountUnit,
    CAST(NULL, 'Nullable(String)') AS CommitmentProgramEligibilityDetails,
    toDecimal128(part.gpu_ns, 9) / 1000000000 AS ConsumedQuantity,
    'GPU-Seconds' AS ConsumedUnit,
    CAST(NULL, 'Nullable(String)') AS ContractApplied,
    part.cost AS ContractedCost,
    part.price AS ContractedUnitPrice,
    part.cost AS EffectiveCost,
    'gpu-fleet' AS HostProviderName,
    CAST(NULL, 'Nullable(String)') AS InvoiceDetailId,
    CAST(NULL, 'Nullable(String)') AS InvoiceId,
    'gpu-fleet' AS InvoiceIssuerName,
    part.cost AS ListCost,
    part.price AS ListUnitPrice,
    'Standard' AS PricingCategory,
    part.currency AS PricingCurrency,
    part.price AS PricingCurrencyContractedUnitPrice,
    part.cost AS PricingCurrencyEffectiveCost,
    part.price AS PricingCurrencyListUnitPrice,
    part.gpu_hours AS PricingQuantity,
    'GPU-Hours' AS PricingUnit,
    CAST(NULL, 'Nullable(String)') AS RegionId,
    CAST(NULL, 'Nullable(String)') AS RegionName,
    part.engine AS ResourceId,
    CAST(NULL, 'Nullable(String)') AS ResourceName,
    'Inference Engine' AS ResourceType,
    'Compute' AS ServiceCategory,
    'GPU Servers' AS ServiceName,
    'gpu-fleet' AS ServiceProviderName,
    'Virtual Machines' AS ServiceSubcategory,
    concat('gpu-time/', part.gpu_type) AS SkuId,
    'GPU Time' AS SkuMeter,
    concat('{"GpuCount":', toString(part.gpu_count), ',"InstanceType":', toJSONString(part.gpu_type), '}') AS SkuPriceDetails,
    concat('gpu-time/', part.gpu_type, '@', toString(part.price), ' ', part.currency) AS SkuPriceId,
    CAST(NULL, 'Nullable(String)') AS SubAccountId,
    CAST(NULL, 'Nullable(String)') AS SubAccountName,
    CAST(NULL, 'Nullable(String)') AS SubAccountType,
    concat('{"loraledger/engine":', toJSONString(part.engine), '}') AS Tags,
    part.owner AS x_Owner
FROM
(
    SELECT
        *,
        intDiv(running * 1000000000000, whole) - intDiv((running - steps) * 1000000000000, whole) AS ratio_steps
    FROM
    (
        SELECT
            *,
            toInt256(gpu_hours * 1000000000000) AS steps,
            sum(steps) OVER (PARTITION BY engine, hour ORDER BY owner, allocated ROWS UNBOUNDED PRECEDING) AS running,
            sum(steps) OVER (PARTITION BY engine, hour) AS whole
        FROM
        (
            SELECT
                cost.engine AS engine, toStartOfHour(cost.quarter) AS hour, 'tenants' AS owner, cost.tenant AS allocated,
                any(cost.gpu_type) AS gpu_type, any(cost.gpu_count) AS gpu_count, any(cost.price) AS price, any(cost.currency) AS currency,
                sum(cost.measured_ns * cost.gpu_count) AS gpu_ns, sum(cost.gpu_hours) AS gpu_hours, sum(cost.cost) AS cost
            FROM tenant_cost AS cost
            GROUP BY engine, hour, allocated
            UNION ALL
            SELECT
                engine, hour, owner, owner AS allocated, gpu_type, gpu_count, price, currency,
                ns * gpu_count AS gpu_ns, gpu_hours, cost
            FROM engine_cost
            WHERE owner NOT IN ('tenants', 'cold')
        )
        WHERE gpu_hours != 0
    )
) AS part
LEFT JOIN (SELECT tenant, argMax(name, known_at) AS name FROM tenants GROUP BY tenant) AS known ON known.tenant = part.allocated
