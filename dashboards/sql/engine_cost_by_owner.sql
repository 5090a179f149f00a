-- What each owner of engine time cost, hour by hour: the seven owners sum to the rented time.
SELECT $__timeInterval(hour) AS time, owner, toFloat64(sum(cost)) AS cost_sum
FROM loraledger.engine_cost
WHERE $__timeFilter(hour)
GROUP BY time, owner
ORDER BY time
