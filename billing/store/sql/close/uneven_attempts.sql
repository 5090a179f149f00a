-- Closed attempts that arrived in the window and whose record says another engine time than the meter's windows, by tenant and engine.
SELECT
    records.tenant AS tenant, records.engine_id AS engine, count() AS attempts, sum(abs(records.ns - shares.ns)) AS apart_ns,
    min(records.at_ns) AS first_ns, max(records.at_ns) AS last_ns,
    hex(SHA256(arrayStringConcat(arraySort(groupArray(concat(records.attempt, ' ', toString(records.ns), ' ', toString(shares.ns)))), ' '))) AS identity
FROM
(
    SELECT
        concat(emitter, ':', toString(seq)) AS attempt, tenant, ifNull(engine, '') AS engine_id, toUnixTimestamp64Nano(arrival) AS at_ns,
        arraySum(slices.base_ns) + arraySum(slices.adapter_ns) + arraySum(slices.recompute_ns) AS ns
    FROM usage
    WHERE arrival >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND arrival < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
        AND source = 'gateway' AND measured
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
WHERE records.ns != shares.ns
GROUP BY tenant, engine
ORDER BY tenant, engine
