-- Missing numbers of the named streams, as far as facts go that are not in quarantine: first and last of each run, with the neighbours that stand before (null for the first run) and after it,
-- the engine that a neighbour names, and the first sign of life of the emitter.
WITH entries AS
(
    SELECT
        stream, emitter, seq, min(at_ns) AS at_ns, min(from_ns) AS from_ns, max(to_ns) AS to_ns, any(engine) AS engine, max(firm) AS firm
    FROM
    (
        SELECT
            concat(name, ' ', emitter) AS stream, emitter, seq, toUnixTimestamp64Nano(at) AS at_ns,
            if(start_ns > 0, start_ns, at_ns) AS from_ns, if(end_ns > 0, end_ns, at_ns) AS to_ns, JSONExtractString(body, 'engine') AS engine,
            1 AS firm
        FROM ledger_event_versions
        WHERE concat(name, ' ', emitter) IN {streams:Array(String)}
        UNION ALL
        SELECT concat('attempts ', emitter) AS stream, emitter, seq, toUnixTimestamp64Nano(at) AS at_ns, at_ns AS from_ns, at_ns AS to_ns, '' AS engine, 1 AS firm
        FROM ledger_event_versions
        WHERE name = {opened:String} AND concat('attempts ', emitter) IN {streams:Array(String)}
        UNION ALL
        SELECT concat('attempts ', emitter) AS stream, emitter, seq, toUnixTimestamp64Nano(arrival) AS at_ns, at_ns AS from_ns, at_ns AS to_ns, '' AS engine, 1 AS firm
        FROM usage_versions
        WHERE source IN ('gateway', 'ledger') AND concat('attempts ', emitter) IN {streams:Array(String)}
        UNION ALL
        SELECT stream, emitter, seq, at_ns, at_ns AS from_ns, at_ns AS to_ns, '' AS engine, 0 AS firm
        FROM quarantined_numbers
        WHERE stream IN {streams:Array(String)}
    )
    GROUP BY stream, emitter, seq
)
SELECT
    runs.stream AS stream, runs.emitter AS emitter, before + 1 AS first, seq - 1 AS last,
    if(before < 0, NULL, before_ns) AS after_ns, from_ns AS until_ns, runs.engine AS engine, births.born_ns AS born_ns
FROM
(
    SELECT
        stream, emitter, seq, from_ns, engine, max(if(firm, seq, -1)) OVER (PARTITION BY stream) AS highest,
        lagInFrame(seq, 1, -1) OVER (PARTITION BY stream ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS before,
        lagInFrame(to_ns, 1, 0) OVER (PARTITION BY stream ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS before_ns
    FROM entries
) AS runs
LEFT JOIN
(
    SELECT emitter, min(toUnixTimestamp64Nano(at)) AS born_ns
    FROM ledger_event_versions
    GROUP BY emitter
) AS births ON births.emitter = runs.emitter
WHERE seq > before + 1 AND seq <= highest
ORDER BY stream, first
