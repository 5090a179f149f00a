-- Usage records on root spans that arrived in the window and are not booked yet as they stand. Prunes otel_traces by day.
SELECT
    SpanAttributes[{attribute:String}] AS record,
    toUnixTimestamp64Nano(Timestamp) AS at_ns,
    TraceId AS trace_id
FROM otel_traces FINAL
WHERE Timestamp >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND Timestamp < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    AND record != ''
    AND lower(hex(SHA256(record))) NOT IN
    (
        SELECT record_hash FROM usage_versions
        WHERE arrival >= fromUnixTimestamp64Nano({start_ns:Int64} - 86400000000000, 'UTC') AND arrival < fromUnixTimestamp64Nano({end_ns:Int64} + 86400000000000, 'UTC')
    )
ORDER BY at_ns, record
