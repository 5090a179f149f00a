-- T_B + T_A - T_kv + T_cold is what was measured: engine seconds, then GPU-hours and money, by tenant and adapter.
SELECT
    tenant, adapter,
    sum(t_b_ns) / 1e9 AS T_B_seconds, sum(t_a_ns) / 1e9 AS T_A_seconds, sum(t_kv_ns) / 1e9 AS T_kv_seconds, sum(t_cold_ns) / 1e9 AS T_cold_seconds, sum(measured_ns) / 1e9 AS measured_seconds,
    sum(requests) AS requests_ended, sum(unmeasured) AS unmeasured_requests, toFloat64(sum(gpu_hours)) AS gpu_hours_used, toFloat64(sum(c.cost)) AS total_cost, c.currency AS currency
FROM loraledger.tenant_cost AS c
WHERE $__timeFilter(quarter) AND $__conditionalAll(tenant IN (${tenant:singlequote}), $tenant)
GROUP BY tenant, adapter, currency
ORDER BY total_cost DESC
