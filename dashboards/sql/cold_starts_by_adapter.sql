-- Adapter loads by adapter and cause: how often, and which phase takes the time (milliseconds).
SELECT
    adapter, cause, count() AS loads, quantile(0.99)(engine_ns) / 1e6 AS engine_p99_ms, quantile(0.99)(fetch_ns) / 1e6 AS fetch_p99_ms,
    quantile(0.99)(read_ns) / 1e6 AS read_p99_ms, quantile(0.99)(activate_ns) / 1e6 AS activate_p99_ms, max(size_bytes) AS largest_bytes, sum(length(stalled)) AS stalled_attempts
FROM loraledger.cold_starts
WHERE $__timeFilter(start)
GROUP BY adapter, cause
ORDER BY loads DESC, adapter, cause
