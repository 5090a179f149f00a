-- UTC hours before an instant of which the ledger has facts, and when it learned the last: of events and spans as taken in, of usage as booked.
SELECT hour_ns, max(learned_at) AS learned_at
FROM
(
    SELECT hour_ns, taken_at AS learned_at
    FROM fact_hours
    WHERE hour_ns < {end_ns:Int64}
    UNION ALL
    SELECT
        toInt64(toUnixTimestamp(toStartOfHour(arrival))) * 1000000000 AS hour_ns,
        toDateTime64(fromUnixTimestamp64Nano(toInt64(max(version)), 'UTC'), 6, 'UTC') AS learned_at
    FROM usage_versions
    WHERE arrival < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    GROUP BY hour_ns
)
GROUP BY hour_ns
ORDER BY hour_ns
