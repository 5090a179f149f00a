-- Attempts that entered an engine, by adapter and tenant: the key by which cold time is shared.
SELECT ifNull(adapter, {base:String}) AS adapter_name, tenant, count() AS requests
FROM usage
WHERE arrival >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND arrival < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    AND engine IS NOT NULL AND (length(slices.start_ns) > 0 OR NOT measured) AND status NOT IN ('rejected', 'bad_request')
    AND concat(emitter, ':', toString(seq)) NOT IN (SELECT attempt FROM disputed_attempts)
GROUP BY adapter_name, tenant
ORDER BY adapter_name, tenant
