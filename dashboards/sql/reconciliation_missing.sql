-- How far the ledger is from conserving time and money over the range: two zeros.
SELECT sum(abs(missing_ns)) AS missing_ns_sum, toFloat64(sum(abs(missing_cost))) AS missing_money
FROM loraledger.finance_reconciliation
WHERE $__timeFilter(hour)
