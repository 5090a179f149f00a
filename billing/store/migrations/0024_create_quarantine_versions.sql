-- blocking: no. What could not be booked, and why; an entry is open until a later run accepts it or a person releases it.
CREATE TABLE quarantine_versions
(
    id String COMMENT 'sha256 of kind and content',
    version UInt64,
    kind LowCardinality(String) COMMENT 'line or usage',
    at DateTime64(6, 'UTC') COMMENT 'when it was found',
    event_time Nullable(DateTime64(9, 'UTC')) COMMENT 'when it happened; null when unknown, which blocks every month',
    tenant LowCardinality(String),
    emitter String,
    seq Int64,
    source String COMMENT 'file and byte offset, or the table it came from',
    reason String,
    content String CODEC(ZSTD(3)),
    resolution String COMMENT 'empty while open'
)
ENGINE = ReplacingMergeTree(version)
ORDER BY id
