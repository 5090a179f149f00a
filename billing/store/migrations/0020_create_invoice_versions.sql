-- blocking: no. Drafts are replaced and deleted; an issued row is written once and never again.
CREATE TABLE invoice_versions
(
    tenant LowCardinality(String),
    billing_month LowCardinality(String) COMMENT 'text, as 2026-10',
    kind LowCardinality(String) COMMENT 'invoice or credit_note',
    number String COMMENT 'empty for a draft',
    version UInt64,
    deleted UInt8,
    status LowCardinality(String) COMMENT 'draft or issued',
    issued_at Nullable(DateTime64(6, 'UTC')),
    currency LowCardinality(String),
    net Decimal(38, 18),
    tax Decimal(38, 18),
    gross Decimal(38, 18),
    document String COMMENT 'the whole document as JSON: what was sent' CODEC(ZSTD(3)),
    hash String COMMENT 'sha256 over prev_hash, number and document; empty for a draft',
    prev_hash String COMMENT 'hash of the document before it in the number series'
)
ENGINE = ReplacingMergeTree(version, deleted)
ORDER BY (tenant, billing_month, kind, number)
