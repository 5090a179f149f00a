-- Closed attempts that arrived in the window, by tenant and engine: the slices of their records against their shares in the meter's windows (up to a day later).
-- `usage_ns`, `meter_ns` and `uneven` are of those that ended before the last window of their engine: the meter writes a little after the gateway.
-- `attempts`, `apart_ns`, `first_ns`, `last_ns` and `identity` are of all whose record says another engine time than the windows.
WITH records.measured AND records.ended_ns <= meters.last_ns AS settled, records.measured AND records.ns != shares.ns AS apart
SELECT
    records.tenant AS tenant, records.engine_id AS engine,
    sumIf(records.ns, settled) AS usage_ns, sumIf(shares.ns, settled) AS meter_ns, countIf(settled AND apart) AS uneven,
    countIf(NOT records.measured AND records.status != 'lost') AS unmeasured,
    countIf(apart) AS attempts, sumIf(abs(records.ns - shares.ns), apart) AS apart_ns,
    minIf(records.at_ns, apart) AS first_ns, maxIf(records.at_ns, apart) AS last_ns,
    hex(SHA256(arrayStringConcat(arraySort(groupArrayIf(concat(records.attempt, ' ', toString(records.ns), ' ', toString(shares.ns)), apart)), ' '))) AS identity
FROM
(
    SELECT
        concat(emitter, ':', toString(seq)) AS attempt, tenant, ifNull(engine, '') AS engine_id, status, measured,
        toUnixTimestamp64Nano(arrival) AS at_ns, toUnixTimestamp64Nano(ifNull(finished, arrival)) AS ended_ns,
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
GROUP BY tenant, engine
ORDER BY tenant, engine
