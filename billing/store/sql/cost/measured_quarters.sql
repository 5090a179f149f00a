-- Measured time by tenant, adapter, engine and quarter hour, with the status of the attempt, empty status: no usage record (yet). What is disputed is nobody's.
-- Of one tenant by attempt, and only those with a record, or (empty) of all. An attempt arrives before its windows, at most a day: that bounds the records to look up.
SELECT
    shares.tenant AS tenant, shares.adapter AS adapter_name, shares.engine AS engine_id, records.status AS status, shares.quarter_ns AS quarter_ns,
    records.identity AS identity, sum(shares.base_ns) AS base_ns, sum(shares.adapter_ns) AS adapter_ns
FROM
(
    SELECT
        engine, quarter_ns, share.attempt AS attempt, if(share.attempt IN (SELECT attempt FROM disputed_attempts), 'unknown', share.tenant) AS tenant,
        splitByChar('@', ifNull(share.adapter, {base:String}))[1] AS adapter,
        sum(share.base_ns) AS base_ns, sum(share.adapter_ns) AS adapter_ns
    FROM
    (
        SELECT
            JSONExtractString(body, 'engine') AS engine,
            greatest(start_ns - start_ns % 900000000000, arrayMax(arrayConcat([toInt64(0)], arrayFilter((cut, of) -> of = engine AND cut <= start_ns, {cuts:Array(Int64)}, {cut_engines:Array(String)})))) AS quarter_ns,
            JSONExtract(body, 'shares', 'Array(Tuple(attempt String, tenant String, adapter Nullable(String), base_ns Int64, adapter_ns Int64))') AS shares
        FROM ledger_events
        WHERE name = {window:String} AND start_ns >= {start_ns:Int64} AND start_ns < {end_ns:Int64}
    )
    ARRAY JOIN shares AS share
    WHERE {tenant:String} = '' OR tenant = {tenant:String}
    GROUP BY engine, quarter_ns, attempt, tenant, adapter
) AS shares
LEFT JOIN
(
    SELECT
        concat(emitter, ':', toString(seq)) AS attempt, status, if({tenant:String} = '', ('', toInt64(0), ''), (emitter, seq, request_id)) AS identity
    FROM usage
    WHERE arrival >= fromUnixTimestamp64Nano({start_ns:Int64} - 86400000000000, 'UTC') AND arrival < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
        AND ({tenant:String} = '' OR tenant = {tenant:String})
) AS records ON records.attempt = shares.attempt
WHERE {tenant:String} = '' OR records.status != ''
GROUP BY tenant, adapter_name, engine_id, status, quarter_ns, identity
ORDER BY tenant, quarter_ns, adapter_name, engine_id, status, identity
