-- GPU nanoseconds of each tenant in a window, adapter loads left out.
SELECT tenant, sum((base_ns + adapter_ns) * gpu_count) AS gpu_ns
FROM tenant_cost
WHERE quarter >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND quarter < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
GROUP BY tenant
ORDER BY tenant
