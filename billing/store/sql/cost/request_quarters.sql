-- Attempts and their tokens by the quarter hour they finished in, a lost one counts where it arrived. Of one tenant by attempt, or (empty) of all.
SELECT
    tenant, ifNull(ended.adapter, {base:String}) AS adapter_name, ifNull(ended.engine, '') AS engine_id, status,
    greatest(ended.at_ns - ended.at_ns % 900000000000, arrayMax(arrayConcat([toInt64(0)], arrayFilter((cut, of) -> of = engine_id AND cut <= ended.at_ns, {cuts:Array(Int64)}, {cut_engines:Array(String)})))) AS quarter_ns, identity,
    sum(if(tenant = 'unauthenticated', attempt, 1)) AS requests,
    sum(ifNull(ended.input_tokens, 0)) AS input_tokens,
    sum(ifNull(ended.cached_tokens, 0)) AS cached_tokens,
    sum(ifNull(ended.output_tokens_delivered, 0)) AS output_tokens,
    countIf(NOT measured OR (ran AND (ended.input_tokens IS NULL OR ended.output_tokens_delivered IS NULL))) AS unmeasured
FROM
(
    SELECT
        * REPLACE (if(concat(emitter, ':', toString(seq)) IN (SELECT attempt FROM disputed_attempts), 'unknown', usage.tenant) AS tenant),
        toUnixTimestamp64Nano(ifNull(finished, arrival)) AS at_ns, length(slices.start_ns) > 0 AS ran,
        if({tenant:String} = '', ('', toInt64(0), ''), (emitter, seq, request_id)) AS identity
    FROM usage
    WHERE arrival >= fromUnixTimestamp64Nano({start_ns:Int64} - 86400000000000, 'UTC') AND arrival < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
        AND ({tenant:String} = '' OR (usage.tenant = {tenant:String} AND concat(emitter, ':', toString(seq)) NOT IN (SELECT attempt FROM disputed_attempts)))
) AS ended
WHERE ended.at_ns >= {start_ns:Int64} AND ended.at_ns < {end_ns:Int64}
GROUP BY tenant, adapter_name, engine_id, status, quarter_ns, identity
ORDER BY tenant, quarter_ns, adapter_name, engine_id, status, identity
