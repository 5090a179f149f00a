-- When an engine went on with other hardware within an hour: there its hour, and the quarter hour of its tenants, is cut.
SELECT engine, at_ns
FROM
(
    SELECT
        engine, toUnixTimestamp64Nano(toDateTime64(minute, 9, 'UTC')) AS at_ns, (gpu_type, gpu_count) AS hardware,
        lagInFrame(hardware, 1, hardware) OVER (PARTITION BY engine, toStartOfHour(minute) ORDER BY minute ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS before
    FROM engine_time
    WHERE minute >= toStartOfHour(fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC')) AND minute < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
)
WHERE hardware != before
ORDER BY engine, at_ns
