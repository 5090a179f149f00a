-- GPU nanoseconds without an owner, summed without sign by engine-hour, and engine-hours whose money does not add up.
SELECT sum(abs(missing_ns) * gpu_count) AS missing_ns, countIf(missing_cost != 0) AS uneven_hours
FROM finance_reconciliation
WHERE hour >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND hour < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
