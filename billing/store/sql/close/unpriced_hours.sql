-- Engine-hours that were rented and have no cost rows.
SELECT
    engine, toStartOfHour(minute) AS hour, gpu_type, toUnixTimestamp64Nano(toDateTime64(hour, 9, 'UTC')) AS hour_ns,
    sum(rented_ns) AS rented, sum(rented_ns * gpu_count) AS gpu_ns
FROM engine_time
WHERE minute >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND minute < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    AND (engine, toStartOfHour(minute), gpu_type, gpu_count) NOT IN (SELECT engine, toStartOfHour(engine_cost.hour), gpu_type, gpu_count FROM engine_cost)
GROUP BY engine, hour, gpu_type
ORDER BY engine, hour
