-- Attempts whose charges are in tenant_cost, as ranges of consecutive numbers by gateway process, of those that arrived since the instant.
-- They were booked when the months' costs were last derived, and one charged by time ended before the last measured moment of its engine
-- (of which the sum of a minute is a lower bound). A lost one may still close, and is not counted.
WITH (SELECT toInt64(max(version)) FROM tenant_cost_versions WHERE billing_month IN {months:Array(String)}) AS derived_ns
SELECT emitter, min(seq) AS from_seq, max(seq) AS to_seq
FROM
(
    SELECT emitter, seq, seq - toInt64(row_number() OVER (PARTITION BY emitter ORDER BY seq)) AS island
    FROM
    (
        SELECT DISTINCT records.emitter AS emitter, records.seq AS seq
        FROM
        (
            SELECT
                emitter, seq, ifNull(engine, '') AS engine_id,
                tenant IN {by_time:Array(String)} AND (NOT measured OR length(slices.start_ns) > 0) AS timed,
                toUnixTimestamp64Nano(ifNull(finished, arrival)) AS at_ns
            FROM usage
            WHERE arrival >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND status != 'lost' AND toInt64(version) <= derived_ns
        ) AS records
        LEFT JOIN
        (
            SELECT engine AS engine_id, max(toUnixTimestamp64Milli(minute) * 1000000 + wall_ns) AS last_ns
            FROM engine_time
            WHERE minute >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND wall_ns > 0
            GROUP BY engine_id
        ) AS meters ON meters.engine_id = records.engine_id
        WHERE NOT records.timed OR records.at_ns <= meters.last_ns
    )
)
GROUP BY emitter, island
ORDER BY emitter, from_seq
