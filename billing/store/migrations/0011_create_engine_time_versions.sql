-- blocking: no. Where each engine's time went, minute by minute, in nanoseconds of engine wall time (not times GPUs).
CREATE TABLE engine_time_versions
(
    engine LowCardinality(String),
    minute DateTime64(3, 'UTC'),
    version UInt64,
    deleted UInt8,
    wall_ns Int64,
    idle_ns Int64,
    tenants_ns Int64,
    cold_ns Int64,
    recompute_ns Int64,
    system_ns Int64,
    unattributed_ns Int64,
    down_ns Int64,
    gpu_type LowCardinality(String),
    gpu_count Int32,
    steps Int64,
    predicted_ns Int64 COMMENT 'what the step model predicted for these steps; drift = busy / predicted',
    system_causes Map(LowCardinality(String), Int64) COMMENT 'system_ns by cause: loop, empty_step, stall',
    CONSTRAINT conserved CHECK wall_ns = idle_ns + tenants_ns + cold_ns + recompute_ns + system_ns + unattributed_ns
)
ENGINE = ReplacingMergeTree(version, deleted)
PARTITION BY toYYYYMM(minute)
ORDER BY (engine, minute)
