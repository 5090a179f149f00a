-- Engine-hours whose owners do not sum to the rented time, in nanoseconds or in money.
SELECT
    engine, toUnixTimestamp64Nano(toDateTime64(hour, 9, 'UTC')) AS hour_ns, missing_ns * gpu_count AS gpu_ns, missing_cost
FROM finance_reconciliation
WHERE hour >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND hour < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    AND (missing_ns != 0 OR missing_cost != 0)
ORDER BY engine, hour
