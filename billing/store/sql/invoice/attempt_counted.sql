-- One tenant's attempts and their tokens, in the quarter hour they finished in, a lost one where it arrived.
SELECT
    emitter, seq, request_id, ifNull(adapter, {base:String}) AS adapter_name, ifNull(engine, '') AS engine_id, status,
    at_ns - at_ns % 900000000000 AS quarter_ns,
    ifNull(input_tokens, 0) AS input_tokens_sum, ifNull(cached_tokens, 0) AS cached_tokens_sum, ifNull(output_tokens_delivered, 0) AS output_tokens_sum
FROM
(
    SELECT *, toUnixTimestamp64Nano(ifNull(finished, arrival)) AS at_ns
    FROM usage
    WHERE tenant = {tenant:String} AND arrival >= fromUnixTimestamp64Nano({start_ns:Int64} - 86400000000000, 'UTC') AND arrival < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
)
WHERE at_ns >= {start_ns:Int64} AND at_ns < {end_ns:Int64}
ORDER BY emitter, seq
