-- Open entries that touch the window (one without an instant touches every window), grouped by reason and by what they touch: the tenant, or where
-- none is known those that the content names, and the engine that the content or the emitter's other facts name (of events only).
SELECT
    kind, reason, touched, engine, min(event_ns) AS first_ns, max(event_ns) AS last_ns, count() AS entries, any(source) AS example,
    any(emitter) AS one_emitter, arraySort(groupArray(id)) AS ids
FROM
(
    SELECT
        waiting.id AS id, waiting.kind AS kind, waiting.reason AS reason, waiting.source AS source, waiting.emitter AS emitter,
        if(waiting.event_time IS NULL, NULL, toUnixTimestamp64Nano(assumeNotNull(waiting.event_time))) AS event_ns,
        if(
            waiting.tenant != '', [waiting.tenant],
            arrayFilter(name -> position(waiting.content, concat('"', name, '"')) > 0 OR position(waiting.content, concat('"', name, '\\"')) > 0, {tenants:Array(String)})
        ) AS touched,
        if(
            waiting.tenant != '' OR waiting.emitter = '' OR waiting.kind != 'line' OR JSONExtractString(waiting.content, 'schema') != '', '',
            if(sources.engine != '', sources.engine, arrayFirst(name -> position(waiting.content, concat('"', name, '"')) > 0, {engines:Array(String)}))
        ) AS engine
    FROM quarantine AS waiting
    LEFT JOIN
    (
        SELECT emitter, anyIf(JSONExtractString(body, 'engine'), JSONExtractString(body, 'engine') != '') AS engine
        FROM ledger_event_versions
        WHERE emitter IN (SELECT emitter FROM quarantine WHERE emitter != '') AND name != {opened:String}
        GROUP BY emitter
    ) AS sources ON sources.emitter = waiting.emitter
    WHERE waiting.event_time IS NULL
        OR (waiting.event_time >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND waiting.event_time < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC'))
)
GROUP BY kind, reason, touched, engine
ORDER BY reason, touched
