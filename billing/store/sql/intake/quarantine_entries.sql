-- Full entries, to write their next version: `event_time` is in nanoseconds, as it is written.
SELECT
    id, kind, at, if(waiting.event_time IS NULL, NULL, toUnixTimestamp64Nano(assumeNotNull(waiting.event_time))) AS event_time,
    tenant, emitter, seq, source, reason, content, resolution
FROM quarantine_versions AS waiting FINAL
WHERE id IN {ids:Array(String)}
