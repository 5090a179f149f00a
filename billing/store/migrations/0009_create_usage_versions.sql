-- blocking: no. Every version of every usage record; identity is (emitter, seq), the newest version counts.
CREATE TABLE usage_versions
(
    tenant LowCardinality(String),
    emitter String,
    seq Int64,
    version UInt64 COMMENT 'UTC nanoseconds at which the ledger learned this',
    request_id String,
    attempt Int32,
    trace_id Nullable(String),
    adapter LowCardinality(Nullable(String)) COMMENT 'null: the base model',
    adapter_hash Nullable(String),
    base_model LowCardinality(Nullable(String)),
    engine LowCardinality(Nullable(String)),
    gpu_type LowCardinality(Nullable(String)),
    gpu_count Nullable(Int32),
    route_policy LowCardinality(Nullable(String)),
    route_rule LowCardinality(Nullable(String)),
    route_reason LowCardinality(Nullable(String)),
    arrival DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    admitted Nullable(DateTime64(9, 'UTC')),
    first_token Nullable(DateTime64(9, 'UTC')),
    finished Nullable(DateTime64(9, 'UTC')) COMMENT 'null only for status lost',
    status LowCardinality(String),
    error_type LowCardinality(Nullable(String)),
    http_status Nullable(Int32),
    input_tokens Nullable(Int64) COMMENT 'cached tokens included',
    cached_tokens Nullable(Int64),
    output_tokens_computed Nullable(Int64),
    output_tokens_delivered Nullable(Int64),
    preemptions Nullable(Int64),
    queue_ns Nullable(Int64),
    route_ns Nullable(Int64),
    measured Bool COMMENT 'false: the meter had no figures, and slices are empty for that reason',
    slices Nested (start_ns Int64, base_ns Int64, adapter_ns Int64, recompute_ns Int64, kv_saved_base_ns Int64, kv_saved_adapter_ns Int64),
    method LowCardinality(Nullable(String)),
    profile LowCardinality(Nullable(String)),
    source LowCardinality(String),
    record_hash String COMMENT 'sha256 of the public JSON form'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(arrival)
ORDER BY (tenant, emitter, seq)
