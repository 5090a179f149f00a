-- Each engine process as its session events tell it: first and last sign of life, and whether it stopped.
SELECT
    engine, session, any(emitter) AS emitter, min(at_ns) AS first_ns, max(at_ns) AS last_ns, toBool(max(event = 'stopped')) AS stopped,
    argMin(gpu_type, at_ns) AS gpu_type, argMin(gpu_count, at_ns) AS gpu_count
FROM
(
    SELECT
        emitter, JSONExtractString(body, 'engine') AS engine, JSONExtractString(body, 'session') AS session, JSONExtractString(body, 'event') AS event,
        JSONExtractInt(body, 'at_ns') AS at_ns, JSONExtractString(body, 'gpu_type') AS gpu_type, JSONExtractInt(body, 'gpu_count') AS gpu_count
    FROM ledger_events
    WHERE name = {session:String}
)
GROUP BY engine, session
ORDER BY engine, first_ns
