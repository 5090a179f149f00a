-- Adapter loads that began in the window.
SELECT body FROM ledger_events
WHERE name = {load:String} AND start_ns >= {start_ns:Int64} AND start_ns < {end_ns:Int64}
ORDER BY emitter, seq
