-- blocking: no. Log events of the spool as they came; identity is (name, emitter, seq), the body is the JSON of one telemetry value.
CREATE TABLE ledger_event_versions
(
    name LowCardinality(String),
    emitter String,
    seq Int64,
    at DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    body String CODEC(ZSTD(3)),
    start_ns Int64 MATERIALIZED JSONExtractInt(body, 'start_ns') COMMENT 'of a meter window or a load; 0 where the body has none',
    end_ns Int64 MATERIALIZED JSONExtractInt(body, 'end_ns'),
    INDEX idx_start start_ns TYPE minmax GRANULARITY 1
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(at)
ORDER BY (name, emitter, seq)
