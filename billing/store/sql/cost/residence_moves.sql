-- Loads and departures of adapters, up to the end of the window, in engine processes that measured something in it.
SELECT
    emitter, splitByChar('@', JSONExtractString(body, 'adapter'))[1] AS adapter_name, name = {load:String} AS came,
    if(came, events.start_ns, toUnixTimestamp64Nano(at)) AS at_ns, JSONExtract(body, 'size_bytes', 'Nullable(Int64)') AS bytes
FROM ledger_events AS events
WHERE name IN ({load:String}, {left:String}) AND at < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    AND emitter IN
    (
        SELECT emitter FROM ledger_events AS windows
        WHERE name = {window:String} AND windows.start_ns >= {start_ns:Int64} AND windows.start_ns < {end_ns:Int64}
    )
ORDER BY emitter, at_ns
