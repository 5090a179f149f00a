-- Money of tenants' rows in a window.
SELECT sum(cost) AS cost_sum FROM tenant_cost
WHERE quarter >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND quarter < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
