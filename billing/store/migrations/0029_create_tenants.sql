-- blocking: no. Append-only: each tenant as the catalog declared it, from known_at on.
CREATE TABLE tenants
(
    tenant LowCardinality(String),
    known_at DateTime64(6, 'UTC'),
    name String,
    org String,
    time_zone LowCardinality(String),
    currency LowCardinality(String),
    plan LowCardinality(String) COMMENT 'cost_plus or per_token',
    document String COMMENT 'the whole catalog entry as JSON, keys left out',
    hash String
)
ENGINE = MergeTree
ORDER BY (tenant, known_at)
