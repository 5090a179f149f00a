-- Full entries, to write their next version.
SELECT
    id, kind, at, if(event_time IS NULL, NULL, toUnixTimestamp64Nano(assumeNotNull(event_time))) AS event_time_ns,
    tenant, emitter, seq, source, reason, content, resolution
FROM quarantine_versions FINAL
WHERE id IN {ids:Array(String)}
