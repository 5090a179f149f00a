-- What usage records say of one engine in the life of one of its processes: measured attempts, their prompts, what was cached of them, and computed outputs.
SELECT
    count() AS attempts,
    sum(ifNull(input_tokens, 0)) AS prompt_tokens,
    sum(ifNull(output_tokens_computed, 0)) AS output_tokens,
    sum(ifNull(cached_tokens, 0)) AS cached_tokens
FROM usage
WHERE ifNull(engine, '') = {engine:String} AND source = 'gateway' AND ifNull(method, '') != ''
    AND arrival >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND arrival < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
