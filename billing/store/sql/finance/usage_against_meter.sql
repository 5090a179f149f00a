-- Closed attempts that arrived in the window: the slices of their records against their shares in the meter's windows (up to a day later).
-- With `settled`, only attempts that ended before the last window of their engine: the meter writes a little after the gateway.
WITH records.measured AND (NOT {settled:Bool} OR records.at_ns <= meters.last_ns) AS compared
SELECT
    sumIf(records.ns, compared) AS usage_ns,
    sumIf(shares.ns, compared) AS meter_ns,
    countIf(compared AND records.ns != shares.ns) AS uneven,
    countIf(NOT records.measured AND records.status != 'lost') AS unmeasured
FROM
(
    SELECT
        concat(emitter, ':', toString(seq)) AS attempt, ifNull(engine, '') AS engine_id, status, measured,
        toUnixTimestamp64Nano(ifNull(finished, arrival)) AS at_ns,
        arraySum(slices.base_ns) + arraySum(slices.adapter_ns) + arraySum(slices.recompute_ns) AS ns
    FROM usage
    WHERE arrival >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND arrival < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC') AND source = 'gateway'
) AS records
LEFT JOIN
(
    SELECT share.attempt AS attempt, sum(share.base_ns + share.adapter_ns + share.recompute_ns) AS ns
    FROM
    (
        SELECT JSONExtract(body, 'shares', 'Array(Tuple(attempt String, base_ns Int64, adapter_ns Int64, recompute_ns Int64))') AS shares
        FROM ledger_events
        WHERE name = {window:String} AND start_ns >= {start_ns:Int64} - 60000000000 AND start_ns < {end_ns:Int64} + 86400000000000
    )
    ARRAY JOIN shares AS share
    GROUP BY attempt
) AS shares ON shares.attempt = records.attempt
LEFT JOIN
(
    SELECT JSONExtractString(body, 'engine') AS engine_id, max(end_ns) AS last_ns
    FROM ledger_events
    WHERE name = {window:String} AND start_ns >= {start_ns:Int64} AND start_ns < {end_ns:Int64} + 86400000000000
    GROUP BY engine_id
) AS meters ON meters.engine_id = records.engine_id
