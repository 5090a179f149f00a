-- Rented engine time without cost rows, by kind of GPU and hour.
SELECT gpu_type, toStartOfHour(minute) AS hour, sum(rented_ns) AS rented
FROM engine_time
WHERE minute >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND minute < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    AND (engine, toStartOfHour(minute)) NOT IN (SELECT engine, hour FROM engine_cost)
GROUP BY gpu_type, hour
ORDER BY gpu_type, hour
