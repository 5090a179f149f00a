-- Highest number and how many distinct ones each stream has, attempts count as opened or booked. What waits in quarantine, or was given up, is not
-- missing, but says not how long a stream is. Only streams with something in the window, but over all their time: a stream may have begun long before.
SELECT firm.stream AS stream, firm.highest AS highest, firm.seen + length(arrayFilter(number -> number < firm.highest, soft.numbers)) AS seen
FROM
(
    SELECT stream, max(seq) AS highest, uniqExact(seq) AS seen
    FROM
    (
        SELECT concat(name, ' ', emitter) AS stream, seq FROM ledger_event_versions WHERE name IN ({window:String}, {session:String}, {load:String}, {left:String}, {reshare:String})
        UNION ALL
        SELECT concat('attempts ', emitter) AS stream, seq FROM ledger_event_versions WHERE name = {opened:String}
        UNION ALL
        SELECT concat('attempts ', emitter) AS stream, seq FROM usage_versions WHERE source IN ('gateway', 'ledger')
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
) AS firm
LEFT JOIN
(
    SELECT stream, groupUniqArray(seq) AS numbers
    FROM quarantined_numbers
    WHERE (stream, seq) NOT IN
    (
        SELECT concat(if(name = {opened:String}, 'attempts', name), ' ', emitter), seq
        FROM ledger_event_versions
        WHERE (emitter, seq) IN (SELECT emitter, seq FROM quarantined_numbers)
        UNION ALL
        SELECT concat('attempts ', emitter), seq
        FROM usage_versions
        WHERE source IN ('gateway', 'ledger') AND (emitter, seq) IN (SELECT emitter, seq FROM quarantined_numbers)
    )
    GROUP BY stream
) AS soft ON soft.stream = firm.stream
WHERE highest + 1 != seen
ORDER BY stream
