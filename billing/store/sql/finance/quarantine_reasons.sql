-- Open entries that touch the window, by reason, one without an instant touches every window.
SELECT reason, count() AS entries
FROM quarantine
WHERE event_time IS NULL OR (event_time >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND event_time < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC'))
GROUP BY reason
ORDER BY entries DESC, reason
