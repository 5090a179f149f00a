-- Owner rows of a window, as they are now.
SELECT engine, hour, owner, gpu_type, gpu_count, ns, gpu_hours, price, cost, currency
FROM engine_cost
WHERE hour >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND hour < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
