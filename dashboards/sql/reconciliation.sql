-- Per engine and hour: owners against rented time, in nanoseconds and in money. Both differences are 0, or the ledger is wrong.
SELECT
    engine, hour, rented_ns / 1e9 AS rented_seconds, tenants_ns / 1e9 AS tenants_seconds, cold_ns / 1e9 AS cold_seconds, recompute_ns / 1e9 AS recompute_seconds, system_ns / 1e9 AS system_seconds,
    idle_ns / 1e9 AS idle_seconds, down_ns / 1e9 AS down_seconds, unattributed_ns / 1e9 AS unattributed_seconds, missing_ns, toFloat64(rented_cost) AS rented_money,
    toFloat64(attributed_cost) AS attributed_money, toFloat64(missing_cost) AS missing_money, currency
FROM loraledger.finance_reconciliation
WHERE $__timeFilter(hour)
ORDER BY hour DESC, engine
