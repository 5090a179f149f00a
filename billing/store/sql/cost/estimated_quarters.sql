-- What cached prefix tokens saved, by the quarter hour of the slice, estimates. Of one tenant by attempt, or (empty) of all.
SELECT
    tenant, ifNull(adapter, {base:String}) AS adapter_name, ifNull(engine, '') AS engine_id, status,
    greatest(slice_ns, arrayMax(arrayConcat([toInt64(0)], arrayFilter((cut, of) -> of = engine_id AND cut <= toUnixTimestamp64Nano(arrival), {cuts:Array(Int64)}, {cut_engines:Array(String)})))) AS quarter_ns, identity,
    sum(saved_base_ns) AS kv_saved_base_ns, sum(saved_adapter_ns) AS kv_saved_adapter_ns
FROM
(
    SELECT
        * REPLACE (if(concat(emitter, ':', toString(seq)) IN (SELECT attempt FROM disputed_attempts), 'unknown', usage.tenant) AS tenant),
        if({tenant:String} = '', ('', toInt64(0), ''), (emitter, seq, request_id)) AS identity
    FROM usage
    WHERE arrival >= fromUnixTimestamp64Nano({start_ns:Int64} - 86400000000000, 'UTC') AND arrival < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
        AND ({tenant:String} = '' OR (usage.tenant = {tenant:String} AND concat(emitter, ':', toString(seq)) NOT IN (SELECT attempt FROM disputed_attempts)))
)
ARRAY JOIN slices.start_ns AS slice_ns, slices.kv_saved_base_ns AS saved_base_ns, slices.kv_saved_adapter_ns AS saved_adapter_ns
WHERE slice_ns >= {start_ns:Int64} AND slice_ns < {end_ns:Int64}
GROUP BY tenant, adapter_name, engine_id, status, quarter_ns, identity
HAVING kv_saved_base_ns != 0 OR kv_saved_adapter_ns != 0
ORDER BY tenant, quarter_ns, adapter_name, engine_id, status, identity
