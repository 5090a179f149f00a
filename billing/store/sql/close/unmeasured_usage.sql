-- Attempts that arrived in the window, by tenant and status: how many there are, and of how many nobody knows the tokens, or the engine time: no share
-- in the meter's windows (up to a day later), and no slices, or `reported_ns` that another source says. What failed or was given up before any engine ran has neither, and misses nothing.
-- Disputed attempts are charged to nobody.
SELECT
    tenant, status, count() AS attempts,
    countIf(no_tokens) AS without_tokens, countIf(no_time) AS without_time,
    minIf(at_ns, no_tokens) AS tokens_first_ns, maxIf(at_ns, no_tokens) AS tokens_last_ns,
    minIf(at_ns, no_time) AS time_first_ns, maxIf(at_ns, no_time) AS time_last_ns,
    sumIf(reported_ns, no_time) AS time_reported_ns, maxIf(ifNull(engine, ''), no_time) AS time_engine,
    hex(SHA256(arrayStringConcat(arraySort(groupArrayIf(attempt, no_tokens)), ' '))) AS tokens_identity,
    hex(SHA256(arrayStringConcat(arraySort(groupArrayIf(attempt, no_time)), ' '))) AS time_identity
FROM
(
    SELECT
        concat(emitter, ':', toString(seq)) AS attempt, tenant, status, toUnixTimestamp64Nano(arrival) AS at_ns,
        (input_tokens IS NULL OR output_tokens_delivered IS NULL) AND (status = 'ok' OR NOT measured OR length(slices.start_ns) > 0) AS no_tokens,
        arraySum(slices.base_ns) + arraySum(slices.adapter_ns) + arraySum(slices.recompute_ns) AS reported_ns, engine,
        (NOT measured OR (reported_ns > 0 AND source NOT IN ('gateway', 'ledger'))) AND attempt NOT IN
        (
            SELECT arrayJoin(JSONExtract(body, 'shares', 'Array(Tuple(attempt String))')).1
            FROM ledger_events
            WHERE name = {window:String} AND start_ns >= {start_ns:Int64} - 60000000000 AND start_ns < {end_ns:Int64} + 86400000000000
        ) AS no_time
    FROM usage
    WHERE arrival >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND arrival < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
        AND attempt NOT IN (SELECT attempt FROM disputed_attempts)
)
GROUP BY tenant, status
ORDER BY tenant, status
