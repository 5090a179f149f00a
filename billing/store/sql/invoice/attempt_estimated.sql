-- What cached prefixes saved each of one tenant's attempts, by quarter hour.
SELECT
    emitter, seq, request_id, ifNull(adapter, {base:String}) AS adapter_name, ifNull(engine, '') AS engine_id, status, slice_ns AS quarter_ns,
    sum(saved_base_ns) AS kv_saved_base_ns, sum(saved_adapter_ns) AS kv_saved_adapter_ns
FROM usage
ARRAY JOIN slices.start_ns AS slice_ns, slices.kv_saved_base_ns AS saved_base_ns, slices.kv_saved_adapter_ns AS saved_adapter_ns
WHERE tenant = {tenant:String} AND arrival >= fromUnixTimestamp64Nano({start_ns:Int64} - 86400000000000, 'UTC') AND arrival < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    AND slice_ns >= {start_ns:Int64} AND slice_ns < {end_ns:Int64} AND (saved_base_ns != 0 OR saved_adapter_ns != 0)
GROUP BY emitter, seq, request_id, adapter_name, engine_id, status, quarter_ns
ORDER BY emitter, seq, quarter_ns
