-- blocking: no. Issued documents in the order of their chain. A block lands whole and once: its deduplication token is the place it takes.
CREATE TABLE issued_documents
(
    chain LowCardinality(String) COMMENT 'always documents: one chain, one shard',
    position UInt64 COMMENT '1, 2, 3... without gaps',
    kind LowCardinality(String) COMMENT 'invoice or credit_note',
    number String,
    tenant LowCardinality(String),
    billing_month LowCardinality(String) COMMENT 'text, as 2026-10',
    issued_at DateTime64(6, 'UTC'),
    document String COMMENT 'the whole document as JSON: what was sent' CODEC(ZSTD(3)),
    hash String COMMENT 'sha256 over prev_hash, number and document',
    prev_hash String COMMENT 'hash of the document one position before; empty for the first'
)
ENGINE = MergeTree
ORDER BY chain
SETTINGS non_replicated_deduplication_window = 10000
