-- Measured time of one tenant's attempts by quarter hour, as the windows of the meter have it, only attempts with a usage record.
-- An attempt arrives before its windows, at most a day: that bounds the records to look up.
SELECT
    records.emitter AS emitter, records.seq AS seq, records.request_id AS request_id, shares.adapter AS adapter, shares.engine AS engine,
    records.status AS status, shares.quarter_ns AS quarter_ns, shares.base_ns AS base_ns, shares.adapter_ns AS adapter_ns
FROM
(
    SELECT
        engine, quarter_ns, share.attempt AS attempt, splitByChar('@', ifNull(share.adapter, {base:String}))[1] AS adapter,
        sum(share.base_ns) AS base_ns, sum(share.adapter_ns) AS adapter_ns
    FROM
    (
        SELECT
            JSONExtractString(body, 'engine') AS engine, start_ns - start_ns % 900000000000 AS quarter_ns,
            JSONExtract(body, 'shares', 'Array(Tuple(attempt String, tenant String, adapter Nullable(String), base_ns Int64, adapter_ns Int64))') AS shares
        FROM ledger_events
        WHERE name = {window:String} AND start_ns >= {start_ns:Int64} AND start_ns < {end_ns:Int64}
    )
    ARRAY JOIN shares AS share
    WHERE share.tenant = {tenant:String}
    GROUP BY engine, quarter_ns, attempt, adapter
) AS shares
INNER JOIN
(
    SELECT concat(emitter, ':', toString(seq)) AS attempt, emitter, seq, request_id, status
    FROM usage
    WHERE tenant = {tenant:String} AND arrival >= fromUnixTimestamp64Nano({start_ns:Int64} - 86400000000000, 'UTC') AND arrival < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
) AS records ON records.attempt = shares.attempt
ORDER BY emitter, seq, quarter_ns
