-- blocking: no. One row per adapter load; null means the phase was not measured.
CREATE TABLE cold_start_versions
(
    adapter LowCardinality(String),
    emitter String,
    seq Int64,
    version UInt64,
    engine LowCardinality(String),
    adapter_hash Nullable(String),
    cause LowCardinality(String),
    start DateTime64(9, 'UTC'),
    engine_ns Int64 COMMENT 'what the engine thread lost: read, parse, first activation',
    fetch_ns Nullable(Int64) COMMENT 'off the engine thread; reported, never summed',
    read_ns Nullable(Int64),
    activate_ns Nullable(Int64),
    size_bytes Nullable(Int64),
    stalled Array(String) COMMENT 'attempts that waited in the step this load held up'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(start)
ORDER BY (adapter, emitter, seq)
