-- Adapter loads that began in the window and are no rows yet.
SELECT body FROM ledger_events
WHERE name = {load:String} AND start_ns >= {start_ns:Int64} AND start_ns < {end_ns:Int64}
    AND (emitter, seq) NOT IN
    (
        SELECT emitter, seq FROM cold_starts
        WHERE start >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND start < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    )
ORDER BY emitter, seq
