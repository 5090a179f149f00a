-- Money by owner in a window of whole hours.
SELECT owner, sum(cost) AS cost_sum, any(currency) AS currency
FROM engine_cost
WHERE hour >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND hour < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
GROUP BY owner
