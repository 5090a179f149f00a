-- Why engine time in a window went to the system, and how much engine time was not idle. Nanoseconds of engine wall time.
SELECT sumMap(system_causes) AS causes, sum(busy_ns) AS busy_ns
FROM engine_time
WHERE minute >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND minute < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
