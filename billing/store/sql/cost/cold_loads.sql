-- Cold engine time by engine, quarter hour and adapter, from the windows. The version suffix of a served name (name@hash) is cut.
SELECT
    JSONExtractString(body, 'engine') AS engine,
    splitByChar('@', cold.1)[1] AS adapter,
    greatest(start_ns - start_ns % 900000000000, arrayMax(arrayConcat([toInt64(0)], arrayFilter((cut, of) -> of = engine AND cut <= start_ns, {cuts:Array(Int64)}, {cut_engines:Array(String)})))) AS quarter_ns,
    sum(cold.2) AS cold_ns
FROM ledger_events
ARRAY JOIN JSONExtract(body, 'cold_ns', 'Map(String, Int64)') AS cold
WHERE name = {window:String} AND start_ns >= {start_ns:Int64} AND start_ns < {end_ns:Int64}
GROUP BY engine, adapter, quarter_ns
ORDER BY engine, adapter, quarter_ns
