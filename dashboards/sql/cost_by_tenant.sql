-- Attributed cost over time, by tenant and currency.
SELECT $__timeInterval(quarter) AS time, concat(c.tenant, ' ', c.currency) AS payer, toFloat64(sum(c.cost)) AS cost
FROM loraledger.tenant_cost AS c
WHERE $__timeFilter(quarter) AND $__conditionalAll(tenant IN (${tenant:singlequote}), $tenant)
GROUP BY time, payer
ORDER BY time
