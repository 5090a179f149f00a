-- One billing month, a line per tenant: what was used, what it cost and brought, and the share of all tenants' GPU time and revenue.
SELECT
    tenant, any(currency) AS currency,
    sum(requests) AS requests, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
    sum(t_b_ns) AS t_b_ns, sum(t_a_ns) AS t_a_ns, sum(t_kv_ns) AS t_kv_ns, sum(t_cold_ns) AS t_cold_ns, sum(measured_ns) AS measured_ns,
    sum(cost) AS cost, sum(revenue) AS revenue,
    if(output_tokens = 0, NULL, cost * 1000000 / greatest(output_tokens, 1)) AS cost_per_million_tokens,
    if(sum(measured_ns) OVER () = 0, NULL, measured_ns / (sum(measured_ns) OVER ())) AS gpu_share,
    if(sum(revenue) OVER () = 0, NULL, toFloat64(revenue) / toFloat64(sum(revenue) OVER ())) AS revenue_share
FROM
(
    SELECT * FROM tenant_cost WHERE billing_month = {month:String} AND tenant != {provider:String}
)
GROUP BY tenant
ORDER BY cost DESC, tenant
