-- Meter windows summed by engine and UTC minute, from where its hardware changed in it if it did. No window crosses a minute: ingest refuses such.
SELECT
    w.engine AS engine,
    greatest(start_ns - start_ns % 60000000000, arrayMax(arrayConcat([toInt64(0)], arrayFilter((cut, of) -> of = w.engine AND cut <= start_ns, {cuts:Array(Int64)}, {cut_engines:Array(String)})))) AS minute_ns,
    sum(end_ns - start_ns) AS wall_ns,
    sum(w.idle_ns) AS idle_ns,
    sum(arraySum(arrayMap(s -> s.base_ns + s.adapter_ns, w.shares))) AS tenants_ns,
    sum(arraySum(mapValues(w.cold_ns))) AS cold_ns,
    sum(arraySum(arrayMap(s -> s.recompute_ns, w.shares))) AS recompute_ns,
    sum(arraySum(mapValues(w.system_ns))) AS system_ns,
    sum(w.unattributed_ns) AS unattributed_ns,
    sum(w.steps) AS steps,
    sum(w.predicted_ns) AS predicted_ns,
    sumMap(w.system_ns) AS system_causes
FROM
(
    SELECT
        start_ns, end_ns,
        JSONExtract(body, 'Tuple(engine String, steps Int64, idle_ns Int64, unattributed_ns Int64, predicted_ns Int64, system_ns Map(String, Int64), cold_ns Map(String, Int64), shares Array(Tuple(base_ns Int64, adapter_ns Int64, recompute_ns Int64)))') AS w
    FROM ledger_events
    WHERE name = {window:String} AND start_ns >= {start_ns:Int64} AND start_ns < {end_ns:Int64}
)
GROUP BY engine, minute_ns
ORDER BY engine, minute_ns
