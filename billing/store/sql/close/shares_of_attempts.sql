-- What the meter saw of attempts of one emitter by their numbers: whose they were, and their engine time and tokens.
SELECT
    seq, any(share.2) AS tenant, any(engine) AS engine_id, sum(share.3 + share.4 + share.5) AS ns, sum(share.6 + share.7) AS tokens
FROM
(
    SELECT
        JSONExtractString(body, 'engine') AS engine,
        arrayJoin(JSONExtract(body, 'shares', 'Array(Tuple(attempt String, tenant String, base_ns Int64, adapter_ns Int64, recompute_ns Int64, prefill_tokens Int64, decode_tokens Int64))')) AS share,
        toInt64OrDefault(substring(share.1, length({emitter:String}) + 2), toInt64(-1)) AS seq
    FROM ledger_events
    WHERE name = {window:String} AND start_ns >= {start_ns:Int64} - 60000000000 AND start_ns < {end_ns:Int64} + 86400000000000
)
WHERE startsWith(share.1, concat({emitter:String}, ':')) AND seq >= {first:Int64} AND seq <= {last:Int64}
GROUP BY seq
ORDER BY seq
