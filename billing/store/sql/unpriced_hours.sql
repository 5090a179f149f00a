-- Engine-hours that were rented and have no cost rows.
SELECT DISTINCT engine, toStartOfHour(minute) AS hour, gpu_type
FROM engine_time
WHERE minute >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND minute < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    AND (engine, toStartOfHour(minute)) NOT IN (SELECT engine, hour FROM engine_cost)
ORDER BY engine, hour
