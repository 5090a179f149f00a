-- blocking: no. Per hour: each tenant's share of the measured GPU time beside its share of the revenue.
CREATE VIEW finance_margin AS
SELECT
    hour, tenant, currency, measured_ns, cost, revenue, revenue - cost AS margin,
    if(hour_ns = 0, NULL, measured_ns / hour_ns) AS gpu_share,
    if(hour_revenue = 0, NULL, toFloat64(revenue) / toFloat64(hour_revenue)) AS revenue_share
FROM
(
    SELECT *, sum(measured_ns) OVER (PARTITION BY hour) AS hour_ns, sum(revenue) OVER (PARTITION BY hour) AS hour_revenue
    FROM
    (
        SELECT
            row.hour AS hour, row.tenant AS tenant, row.currency AS currency,
            sum(row.measured_ns) AS measured_ns, sum(row.cost) AS cost, sum(row.revenue) AS revenue
        FROM tenant_cost_hourly AS row
        GROUP BY hour, tenant, currency
    )
)
