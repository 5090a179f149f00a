-- The last reading of its own counters by each engine process whose readings touch the window.
SELECT emitter, max(seq) AS last_seq, argMax(body, seq) AS body
FROM ledger_events
WHERE name = {counters:String} AND at >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND at < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
GROUP BY emitter
ORDER BY emitter
