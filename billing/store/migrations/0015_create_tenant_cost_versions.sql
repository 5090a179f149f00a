-- blocking: no. Cost by tenant and quarter hour; a row that a later run no longer finds is marked deleted, never left behind.
CREATE TABLE tenant_cost_versions
(
    tenant LowCardinality(String) COMMENT 'provider: cold time of loads that no request followed',
    quarter DateTime64(3, 'UTC') COMMENT 'start of a UTC quarter hour',
    adapter LowCardinality(String) COMMENT 'base: requests without an adapter',
    engine LowCardinality(String),
    status LowCardinality(String) COMMENT 'cold: rows that hold only shared cold time',
    version UInt64,
    deleted UInt8,
    billing_month LowCardinality(String) COMMENT 'of this quarter hour in the tenant time zone, as 2026-10',
    base_ns Int64,
    adapter_ns Int64,
    cold_ns Int64,
    kv_saved_base_ns Int64,
    kv_saved_adapter_ns Int64,
    requests Int64,
    input_tokens Int64,
    cached_tokens Int64,
    output_tokens Int64 COMMENT 'delivered',
    unmeasured Int64 COMMENT 'of requests, those without the figures of the meter or without token counts: sums over them are partial',
    gpu_type LowCardinality(String),
    gpu_count Int32,
    base_gpu_hours Decimal(38, 12) COMMENT 'dealt with the other parts of the engine-hour, so that all sum to it exactly',
    adapter_gpu_hours Decimal(38, 12),
    cold_gpu_hours Decimal(38, 12),
    price Decimal(38, 18) COMMENT 'per GPU-hour',
    cost Decimal(38, 18),
    charged_to LowCardinality(String) COMMENT 'tenant or provider, by the price book table of statuses',
    revenue Decimal(38, 18) COMMENT 'what the plan asks for this row before minimums, discounts and line rounding',
    currency LowCardinality(String)
)
ENGINE = ReplacingMergeTree(version, deleted)
PARTITION BY toYYYYMM(quarter)
ORDER BY (tenant, quarter, adapter, engine, status)
