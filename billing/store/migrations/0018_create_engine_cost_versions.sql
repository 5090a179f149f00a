-- blocking: no. What each engine-hour cost and who owns it: the seven owners sum to rented time x GPUs, in nanoseconds and in money.
CREATE TABLE engine_cost_versions
(
    engine LowCardinality(String),
    hour DateTime64(3, 'UTC'),
    owner LowCardinality(String) COMMENT 'tenants, cold, recompute, system, idle, unattributed, down',
    version UInt64,
    deleted UInt8,
    gpu_type LowCardinality(String),
    gpu_count Int32,
    ns Int64 COMMENT 'engine wall nanoseconds, not times GPUs',
    gpu_hours Decimal(38, 12),
    price Decimal(38, 18) COMMENT 'per GPU-hour, at the start of the hour',
    cost Decimal(38, 18),
    currency LowCardinality(String)
)
ENGINE = ReplacingMergeTree(version, deleted)
PARTITION BY toYYYYMM(hour)
ORDER BY (engine, hour, owner)
