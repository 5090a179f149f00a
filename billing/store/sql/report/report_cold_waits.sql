-- The newest waits of attempts for a cold adapter, as the request saw them: the load's span, and the adapter of the attempt.
SELECT attempts.adapter_name AS adapter, toUnixTimestamp64Nano(loads.Timestamp) AS at_ns, toInt64(loads.Duration) AS wait_ns
FROM
(
    SELECT TraceId, Timestamp, Duration
    FROM otel_traces FINAL
    WHERE SpanName = {span:String}
        AND Timestamp >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND Timestamp < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
) AS loads
INNER JOIN
(
    SELECT assumeNotNull(trace_id) AS trace, assumeNotNull(adapter) AS adapter_name
    FROM usage
    WHERE arrival >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND arrival < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
        AND trace_id IS NOT NULL AND adapter IS NOT NULL
) AS attempts ON attempts.trace = loads.TraceId
ORDER BY at_ns DESC
LIMIT 500
