-- Attempts to whom the meter gave time in the window for a tenant or an adapter that nobody knows, or for another tenant than their record names.
SELECT
    shares.attempt AS attempt, shares.tenants AS tenants, shares.adapters AS adapters, shares.at_ns AS at_ns, records.tenant AS recorded,
    arrayFilter(name -> name NOT IN ({tenants:Array(String)}) AND name NOT IN (SELECT tenant FROM tenants), shares.tenants) AS unknown_tenants,
    arrayFilter(name -> name NOT IN ({adapters:Array(String)}) AND name NOT IN (SELECT adapter FROM adapters), shares.adapters) AS unknown_adapters
FROM
(
    SELECT
        share.attempt AS attempt, arraySort(groupUniqArray(share.tenant)) AS tenants, min(window_ns) AS at_ns,
        arraySort(groupUniqArray(splitByChar('@', ifNull(share.adapter, {base:String}))[1])) AS adapters
    FROM
    (
        SELECT start_ns AS window_ns, JSONExtract(body, 'shares', 'Array(Tuple(attempt String, tenant String, adapter Nullable(String)))') AS shares
        FROM ledger_events
        WHERE name = {window:String} AND start_ns >= {start_ns:Int64} AND start_ns < {end_ns:Int64}
    )
    ARRAY JOIN shares AS share
    GROUP BY attempt
) AS shares
LEFT JOIN
(
    SELECT concat(emitter, ':', toString(seq)) AS attempt, tenant
    FROM usage
    WHERE arrival >= fromUnixTimestamp64Nano({start_ns:Int64} - 86400000000000, 'UTC') AND arrival < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
) AS records ON records.attempt = shares.attempt
WHERE (recorded != '' OR tenants != ['unknown'])
    AND (length(tenants) > 1 OR (recorded != '' AND recorded != tenants[1]) OR length(unknown_tenants) > 0 OR length(unknown_adapters) > 0)
ORDER BY attempt
