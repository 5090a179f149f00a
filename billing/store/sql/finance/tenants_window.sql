-- GPU nanoseconds of some tenants in a window, adapter loads left out, and what all their time cost.
SELECT sum((base_ns + adapter_ns) * gpu_count) AS gpu_ns, sum(cost) AS cost_sum
FROM tenant_cost
WHERE quarter >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND quarter < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    AND tenant IN {tenants:Array(String)}
