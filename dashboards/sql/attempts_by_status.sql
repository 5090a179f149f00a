-- Attempts over time by how they ended, lost ones included.
SELECT $__timeInterval(arrival) AS time, status, count() AS attempts
FROM loraledger.usage
WHERE $__timeFilter(arrival)
GROUP BY time, status
ORDER BY time
