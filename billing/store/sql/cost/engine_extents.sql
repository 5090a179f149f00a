-- First to last window of each meter among the windows that begin in the range.
SELECT JSONExtractString(body, 'engine') AS engine, emitter, min(ledger_events.start_ns) AS first_ns, max(end_ns) AS last_ns
FROM ledger_events
WHERE name = {window:String} AND ledger_events.start_ns >= {start_ns:Int64} AND ledger_events.start_ns < {end_ns:Int64}
GROUP BY engine, emitter
ORDER BY engine, first_ns
