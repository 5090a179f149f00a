-- Engines whose meter measured another time than the engine minutes hold: theirs could not be derived, or not yet.
SELECT measured.engine AS engine, measured.ns - placed.ns AS apart_ns, measured.first_ns AS first_ns, measured.last_ns AS last_ns
FROM
(
    SELECT JSONExtractString(body, 'engine') AS engine, sum(end_ns - start_ns) AS ns, min(ledger_events.start_ns) AS first_ns, max(end_ns) AS last_ns
    FROM ledger_events
    WHERE name = {window:String} AND start_ns >= {start_ns:Int64} AND start_ns < {end_ns:Int64}
    GROUP BY engine
) AS measured
LEFT JOIN
(
    SELECT engine, sum(wall_ns) AS ns
    FROM engine_time
    WHERE minute >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND minute < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    GROUP BY engine
) AS placed ON placed.engine = measured.engine
WHERE measured.ns != placed.ns
ORDER BY engine
