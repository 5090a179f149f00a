-- What the plans ask for a stretch of time, by tenant, before minimums and discounts.
SELECT tenant, sum(revenue) AS revenue_sum
FROM tenant_cost
WHERE quarter >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND quarter < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
GROUP BY tenant
