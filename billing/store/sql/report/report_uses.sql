-- When each adapter was in use on each engine: first arrival and last end of its attempts in every stretch of `step_ns`.
SELECT
    ifNull(adapter, '') AS adapter_name, ifNull(engine, '') AS engine_id,
    intDiv(toUnixTimestamp64Nano(arrival) - {start_ns:Int64}, {step_ns:Int64}) AS stretch,
    min(toUnixTimestamp64Nano(arrival)) AS first_ns, max(toUnixTimestamp64Nano(ifNull(finished, arrival))) AS last_ns, count() AS attempts
FROM usage
WHERE arrival >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND arrival < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    AND adapter IS NOT NULL AND length(slices.start_ns) > 0
GROUP BY adapter_name, engine_id, stretch
ORDER BY engine_id, adapter_name, stretch
