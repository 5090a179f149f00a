-- blocking: no. One row per closed billing month.
CREATE TABLE billing_period_versions
(
    billing_month LowCardinality(String),
    version UInt64,
    status LowCardinality(String) COMMENT 'closed',
    closed_at DateTime64(6, 'UTC'),
    catalog_version String,
    documents UInt32,
    cost Decimal(38, 18) COMMENT 'attributed to tenants and provider in that month',
    currency LowCardinality(String)
)
ENGINE = ReplacingMergeTree(version)
ORDER BY billing_month
