-- blocking: no. Which stretch of time was derived from the facts, and when: facts that came later are not in usage, engine_time and tenant_cost yet.
CREATE TABLE ledger_derivations
(
    start_ns Int64 COMMENT 'UTC nanoseconds',
    end_ns Int64,
    derived_at DateTime64(6, 'UTC'),
    catalog_version String
)
ENGINE = ReplacingMergeTree
ORDER BY (start_ns, end_ns, derived_at)
