-- Attempts that opened in the window and have no booked record, not even a lost one, those in quarantine are not lost but waiting there.
SELECT body
FROM ledger_events
WHERE name = {opened:String}
    AND at >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND at < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    AND (emitter, seq) NOT IN (SELECT emitter, seq FROM usage_versions)
    AND (emitter, seq) NOT IN (SELECT emitter, seq FROM quarantine WHERE kind = 'usage')
ORDER BY emitter, seq
