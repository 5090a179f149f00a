-- Cost beside revenue, and the share of the GPU beside the share of the revenue; a share is empty when nothing was used or asked.
SELECT
    tenant, toFloat64(cost_sum) AS cost, toFloat64(revenue_sum) AS revenue, toFloat64(revenue_sum - cost_sum) AS margin,
    if(all_ns = 0, NULL, 100 * tenant_ns / all_ns) AS gpu_percent, if(all_revenue = 0, NULL, 100 * toFloat64(revenue_sum) / toFloat64(all_revenue)) AS revenue_percent, currency
FROM
(
    SELECT *, sum(tenant_ns) OVER () AS all_ns, sum(revenue_sum) OVER () AS all_revenue
    FROM
    (
        SELECT tenant, currency, sum(c.cost) AS cost_sum, sum(c.revenue) AS revenue_sum, sum(c.measured_ns) AS tenant_ns
        FROM loraledger.tenant_cost AS c
        WHERE $__timeFilter(quarter)
        GROUP BY tenant, currency
    )
)
ORDER BY margin
