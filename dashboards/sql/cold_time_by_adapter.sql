-- Engine seconds that loading adapters took, over time.
SELECT $__timeInterval(start) AS time, adapter, sum(engine_ns) / 1e9 AS seconds
FROM loraledger.cold_starts
WHERE $__timeFilter(start)
GROUP BY time, adapter
ORDER BY time
