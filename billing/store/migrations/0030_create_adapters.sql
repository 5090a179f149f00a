-- blocking: no. Append-only: each adapter as the catalog declared it, from known_at on.
CREATE TABLE adapters
(
    adapter LowCardinality(String),
    known_at DateTime64(6, 'UTC'),
    owner String,
    rank UInt32,
    memory_budget_bytes Int64,
    document String,
    hash String
)
ENGINE = MergeTree
ORDER BY (adapter, known_at)
