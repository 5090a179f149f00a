-- Attempts and their tokens by the quarter hour they finished in, a lost one counts where it arrived.
SELECT
    tenant, ifNull(adapter, {base:String}) AS adapter_name, ifNull(engine, '') AS engine_id, status,
    at_ns - at_ns % 900000000000 AS quarter_ns,
    sum(if(tenant = 'unauthenticated', attempt, 1)) AS requests,
    sum(ifNull(input_tokens, 0)) AS input_tokens_sum,
    sum(ifNull(cached_tokens, 0)) AS cached_tokens_sum,
    sum(ifNull(output_tokens_delivered, 0)) AS output_tokens_sum,
    countIf(NOT measured OR (ran AND (input_tokens IS NULL OR output_tokens_delivered IS NULL))) AS unmeasured
FROM
(
    SELECT *, toUnixTimestamp64Nano(ifNull(finished, arrival)) AS at_ns, length(slices.start_ns) > 0 AS ran
    FROM usage
    WHERE arrival >= fromUnixTimestamp64Nano({start_ns:Int64} - 86400000000000, 'UTC') AND arrival < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
)
WHERE at_ns >= {start_ns:Int64} AND at_ns < {end_ns:Int64}
GROUP BY tenant, adapter_name, engine_id, status, quarter_ns
ORDER BY tenant, quarter_ns, adapter_name, engine_id, status
