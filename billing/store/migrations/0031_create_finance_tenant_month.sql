-- blocking: no. What each tenant used, cost and was asked for in its own billing month. unmeasured > 0 marks partial sums.
CREATE VIEW finance_tenant_month AS
SELECT
    month.billing_month AS billing_month, month.tenant AS tenant, month.currency AS currency,
    sum(month.requests) AS requests, sum(month.unmeasured) AS unmeasured,
    sum(month.input_tokens) AS input_tokens, sum(month.cached_tokens) AS cached_tokens, sum(month.output_tokens) AS output_tokens,
    sum(month.t_b_ns) AS t_b_ns, sum(month.t_a_ns) AS t_a_ns, sum(month.t_kv_ns) AS t_kv_ns, sum(month.t_cold_ns) AS t_cold_ns, sum(month.measured_ns) AS measured_ns,
    sum(month.gpu_hours) AS gpu_hours, sum(month.cost) AS cost, sum(month.revenue) AS revenue, sum(month.revenue) - sum(month.cost) AS margin
FROM tenant_cost AS month
GROUP BY billing_month, tenant, currency
