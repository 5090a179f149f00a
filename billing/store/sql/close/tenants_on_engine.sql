-- Who had something on an engine in a stretch of time, by the records and by the meter.
SELECT DISTINCT tenant
FROM
(
    SELECT tenant
    FROM usage
    WHERE ifNull(engine, '') = {engine:String}
        AND arrival >= fromUnixTimestamp64Nano({start_ns:Int64} - 86400000000000, 'UTC') AND arrival < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
        AND ifNull(finished, arrival) >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC')
    UNION ALL
    SELECT arrayJoin(JSONExtract(body, 'shares', 'Array(Tuple(tenant String))')).1 AS tenant
    FROM ledger_events
    WHERE name = {window:String} AND start_ns >= {start_ns:Int64} - 60000000000 AND start_ns < {end_ns:Int64} AND end_ns > {start_ns:Int64}
        AND JSONExtractString(body, 'engine') = {engine:String}
)
ORDER BY tenant
