-- How far the ledger's two ends are from now.
SELECT dateDiff('second', max(minute), now()) AS engine_time_age, (SELECT dateDiff('second', max(quarter), now()) FROM loraledger.tenant_cost) AS tenant_cost_age
FROM loraledger.engine_time
