-- Adapter loads of a window by adapter: how many, how many that no request waited for, and what the engine's thread lost to them.
SELECT
    adapter, count() AS loads, countIf(cause != 'request') AS ahead,
    sum(engine_ns) AS engine_sum_ns,
    arraySort(groupArray(engine_ns))[intDiv(count() + 1, 2)] AS engine_median_ns
FROM cold_starts
WHERE start >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND start < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
GROUP BY adapter
ORDER BY engine_sum_ns DESC, adapter
