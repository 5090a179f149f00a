-- Each tenant's attempts of its own billing month against its promise, judged as the alerts judge: successes by their latency,
-- failures as above every bound, a client that left only when it was late already, refused and faulty attempts have no say.
-- Being slow to send or to read is the client's own. Latencies are of successes, the 99th percentile by nearest rank.
SELECT
    tenant, judged_attempts, failed_attempts, above_slo, above_yellow, above_red,
    if(empty(latencies), NULL, latencies[intDiv(length(latencies) + 1, 2)]) AS p50_ns,
    if(empty(latencies), NULL, latencies[intDiv(length(latencies) * 99 + 99, 100)]) AS p99_ns,
    if(empty(latencies), NULL, latencies[length(latencies)]) AS max_ns
FROM
(
    SELECT
        tenant,
        countIf(late >= 0) AS judged_attempts,
        countIf(failed) AS failed_attempts,
        countIf(late > slo) AS above_slo,
        countIf(late > yellow) AS above_yellow,
        countIf(late > red) AS above_red,
        arraySort(groupArrayIf(assumeNotNull(latency_ns), status = 'ok')) AS latencies
    FROM
    (
        SELECT
            tenant, status, latency_ns,
            transform(tenant, {tenants:Array(String)}, {slo_ns:Array(Int64)}, toInt64(0)) AS slo,
            transform(tenant, {tenants:Array(String)}, {yellow_ns:Array(Int64)}, toInt64(0)) AS yellow,
            transform(tenant, {tenants:Array(String)}, {red_ns:Array(Int64)}, toInt64(0)) AS red,
            status IN ('server_error', 'timeout') AS failed,
            ifNull(error_type, '') = 'client_slow' AS waited,
            multiIf(failed, 9223372036854775807, status = 'ok' OR (status = 'client_abort' AND NOT waited AND latency_ns > slo), if(waited, slo, assumeNotNull(latency_ns)), -1) AS late
        FROM usage
        WHERE tenant IN {tenants:Array(String)}
            AND toUnixTimestamp64Nano(arrival) >= transform(tenant, {tenants:Array(String)}, {from_ns:Array(Int64)}, toInt64(0))
            AND toUnixTimestamp64Nano(arrival) < transform(tenant, {tenants:Array(String)}, {to_ns:Array(Int64)}, toInt64(0))
            AND arrival >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND arrival < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    )
    GROUP BY tenant
)
ORDER BY tenant
