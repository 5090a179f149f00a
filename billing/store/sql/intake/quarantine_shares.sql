-- Open entries about shares in the meter's windows of a stretch of time.
SELECT id FROM quarantine
WHERE kind = 'share' AND event_time >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND event_time < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
ORDER BY id
