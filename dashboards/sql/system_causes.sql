-- System time over time by cause: the loop between steps, empty steps, stalls.
SELECT $__timeInterval(minute) AS time, cause, sum(system_causes[cause]) / 1e9 AS seconds
FROM loraledger.engine_time
ARRAY JOIN mapKeys(system_causes) AS cause
WHERE $__timeFilter(minute)
GROUP BY time, cause
ORDER BY time
