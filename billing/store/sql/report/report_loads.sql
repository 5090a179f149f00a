-- Adapter loads that began in the window, and of each engine process the newest one of each adapter since `since_ns` before it.
SELECT adapter, engine, emitter, cause, toUnixTimestamp64Nano(start) AS start_ns, engine_ns, read_ns, activate_ns
FROM
(
    SELECT *, start < fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AS before
    FROM cold_starts
    WHERE start >= fromUnixTimestamp64Nano({since_ns:Int64}, 'UTC') AND start < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    ORDER BY start DESC
    LIMIT 1 BY emitter, adapter, if(before, -1, seq)
)
ORDER BY start_ns, adapter, emitter
