-- Idle GPU-hours of a window by hardware and price.
SELECT gpu_type, price, sum(gpu_hours) AS hours_sum
FROM engine_cost
WHERE owner = 'idle' AND hour >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND hour < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
GROUP BY gpu_type, price
ORDER BY gpu_type, price
