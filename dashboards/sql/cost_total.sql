-- Attributed cost, revenue and margin of the chosen tenants over the time range.
SELECT toFloat64(sum(c.cost)) AS cost, toFloat64(sum(c.revenue)) AS revenue, toFloat64(sum(c.revenue) - sum(c.cost)) AS margin
FROM loraledger.tenant_cost AS c
WHERE $__timeFilter(quarter) AND $__conditionalAll(tenant IN (${tenant:singlequote}), $tenant)
