-- The last moment that each engine process measured in the window.
SELECT emitter, max(windows.end_ns) AS last_ns
FROM ledger_events AS windows
WHERE name = {window:String} AND windows.start_ns >= {start_ns:Int64} AND windows.start_ns < {end_ns:Int64}
GROUP BY emitter
