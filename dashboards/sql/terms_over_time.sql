-- The four terms of the formula in engine seconds over time; T_kv is an estimate and counts against the others.
SELECT $__timeInterval(quarter) AS time, sum(t_b_ns) / 1e9 AS T_B, sum(t_a_ns) / 1e9 AS T_A, -sum(t_kv_ns) / 1e9 AS minus_T_kv, sum(t_cold_ns) / 1e9 AS T_cold
FROM loraledger.tenant_cost
WHERE $__timeFilter(quarter) AND $__conditionalAll(tenant IN (${tenant:singlequote}), $tenant)
GROUP BY time
ORDER BY time
