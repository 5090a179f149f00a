-- blocking: no. Double-entry postings, a pure function of the issued documents in their order: writing them again changes nothing.
CREATE TABLE posting_versions
(
    tenant LowCardinality(String),
    position UInt64 COMMENT 'of the document, in issued_documents',
    entry UInt32 COMMENT '1, 2, 3... within the document',
    version UInt64,
    document String COMMENT 'number of the invoice or credit note',
    kind LowCardinality(String) COMMENT 'invoice or credit_note',
    account LowCardinality(String) COMMENT 'receivable, revenue or tax',
    line Nullable(UInt32) COMMENT 'line of the document, for revenue',
    item Nullable(String) COMMENT 'what the line is for',
    rate Nullable(Decimal(38, 18)) COMMENT 'tax rate, for tax',
    billing_month LowCardinality(String) COMMENT 'when it was used: for a correction the month that it corrects',
    booked_on Date32,
    invoice String COMMENT 'the invoice that is raised or lowered',
    currency LowCardinality(String),
    debit Decimal(38, 18),
    credit Decimal(38, 18),
    previous_hash String,
    hash String COMMENT 'sha256 over previous_hash and everything else'
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (tenant, position, entry)
