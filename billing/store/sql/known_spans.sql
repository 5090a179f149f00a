-- Spans that the ledger already has, among the given traces. Prunes by day and by the bloom filter on TraceId.
SELECT DISTINCT TraceId, SpanId FROM otel_traces
WHERE Timestamp >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND Timestamp <= fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    AND TraceId IN {traces:Array(String)}
