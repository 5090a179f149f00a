-- Whose attempts came through one gateway process in a stretch of time.
SELECT DISTINCT tenant
FROM
(
    SELECT tenant
    FROM usage
    WHERE emitter = {emitter:String}
        AND arrival >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND arrival < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    UNION ALL
    SELECT JSONExtractString(body, 'tenant') AS tenant
    FROM ledger_events
    WHERE name = {opened:String} AND emitter = {emitter:String}
        AND at >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND at < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
)
ORDER BY tenant
