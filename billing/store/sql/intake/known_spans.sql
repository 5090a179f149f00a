-- Spans that the ledger already has, among the given traces, each with a hash of its usage record, if it has one. Prunes by day and by the bloom filter on TraceId.
SELECT DISTINCT
    TraceId, SpanId,
    if(SpanAttributes[{attribute:String}] = '', '', lower(hex(SHA256(SpanAttributes[{attribute:String}])))) AS record
FROM otel_traces
WHERE Timestamp >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND Timestamp <= fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    AND TraceId IN {traces:Array(String)}
