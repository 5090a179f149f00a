-- blocking: no. What was found when a month was last closed, and whom it keeps from an invoice; read it with FINAL. A finding that is gone is marked deleted.
CREATE TABLE billing_blocks
(
    billing_month LowCardinality(String),
    id String COMMENT 'what close --accept-gap takes',
    version UInt64,
    deleted UInt8,
    kind LowCardinality(String) COMMENT 'quarantine, records, counters, agreement, open, price, time, draft, document',
    what String,
    tenants Array(String) COMMENT 'whom it touches; empty: nobody',
    waiting Array(String) COMMENT 'of these, who has no invoice yet',
    engine LowCardinality(String),
    records Nullable(Int64) COMMENT 'how many entries, numbers, attempts or hours it is about',
    tokens Nullable(Int64),
    engine_ns Nullable(Int64),
    cost Nullable(Decimal(38, 18)) COMMENT 'at stake, in the currency of the price book; null: not known',
    advice String
)
ENGINE = ReplacingMergeTree(version, deleted)
ORDER BY (billing_month, id)
