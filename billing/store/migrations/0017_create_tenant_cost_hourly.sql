-- blocking: no.
CREATE VIEW tenant_cost_hourly AS
SELECT
    tenant, toStartOfHour(quarter) AS hour, adapter, engine, currency,
    sum(t_b_ns) AS t_b_ns, sum(t_a_ns) AS t_a_ns, sum(t_kv_ns) AS t_kv_ns, sum(t_cold_ns) AS t_cold_ns, sum(measured_ns) AS measured_ns,
    sum(requests) AS requests, sum(input_tokens) AS input_tokens, sum(cached_tokens) AS cached_tokens, sum(output_tokens) AS output_tokens, sum(unmeasured) AS unmeasured,
    sum(gpu_hours) AS gpu_hours, sum(cost) AS cost, sum(revenue) AS revenue
FROM tenant_cost
GROUP BY tenant, hour, adapter, engine, currency
