-- Highest number and how many distinct ones each stream has, attempts count as opened or booked or quarantined.
-- Only streams with something in the window, but over all their time: a stream may have begun long before.
SELECT stream, max(seq) AS highest, uniqExact(seq) AS seen
FROM
(
    SELECT concat(name, ' ', emitter) AS stream, seq FROM ledger_event_versions WHERE name IN ({window:String}, {session:String}, {load:String}, {left:String}, {reshare:String})
    UNION ALL
    SELECT concat('attempts ', emitter) AS stream, seq FROM ledger_event_versions WHERE name = {opened:String}
    UNION ALL
    SELECT concat('attempts ', emitter) AS stream, seq FROM usage_versions WHERE source IN ('gateway', 'ledger')
    UNION ALL
    SELECT concat('attempts ', emitter) AS stream, seq FROM quarantine_versions WHERE kind = 'usage'
)
WHERE stream IN
(
    SELECT concat(name, ' ', emitter) FROM ledger_event_versions
    WHERE at >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND at < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    UNION ALL
    SELECT concat('attempts ', emitter) FROM ledger_event_versions
    WHERE name = {opened:String} AND at >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND at < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    UNION ALL
    SELECT concat('attempts ', emitter) FROM usage_versions
    WHERE arrival >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND arrival < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
)
GROUP BY stream
HAVING highest + 1 != seen
ORDER BY stream
