-- Attempts that arrived in the window and have no record, not even a lost one, by tenant.
SELECT JSONExtractString(body, 'tenant') AS tenant, count() AS attempts
FROM ledger_events
WHERE name = {opened:String}
    AND at >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND at < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    AND (emitter, seq) NOT IN (SELECT emitter, seq FROM usage_versions)
    AND (emitter, seq) NOT IN (SELECT emitter, seq FROM quarantine WHERE kind = 'usage')
GROUP BY tenant
ORDER BY tenant
