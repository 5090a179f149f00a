-- blocking: no. Append-only: the price book as of event time (start) and as of knowledge time (known_at). The hash of the content decides what is new.
CREATE TABLE prices
(
    gpu_type LowCardinality(String),
    start DateTime64(6, 'UTC'),
    known_at DateTime64(6, 'UTC'),
    per_hour Decimal(38, 6),
    currency LowCardinality(String),
    book String COMMENT 'version of the price book',
    hash String
)
ENGINE = MergeTree
ORDER BY (gpu_type, start, known_at)
