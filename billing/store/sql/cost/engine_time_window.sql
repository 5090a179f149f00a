-- Engine minutes of a window, as they are now.
SELECT
    engine, minute,
    wall_ns, idle_ns, tenants_ns, cold_ns, recompute_ns, system_ns, unattributed_ns, down_ns, gpu_type, gpu_count,
    steps, predicted_ns, system_causes
FROM engine_time
WHERE minute >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND minute < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
ORDER BY engine, minute
