-- What a token cost on an engine in a stretch of time: money of tenants' rows, and their tokens in and out.
SELECT sum(cost) AS cost_sum, sum(input_tokens + output_tokens) AS tokens
FROM tenant_cost
WHERE engine = {engine:String}
    AND quarter >= fromUnixTimestamp64Nano({start_ns:Int64} - 900000000000, 'UTC') AND quarter < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
