-- Identities of loads that are already rows.
SELECT emitter, seq FROM cold_starts
WHERE start >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND start < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
