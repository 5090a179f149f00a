-- GPU nanoseconds by owner in a window of whole minutes.
SELECT
    sum(tenants_ns * gpu_count) AS tenants, sum(cold_ns * gpu_count) AS cold, sum(recompute_ns * gpu_count) AS recompute,
    sum(system_ns * gpu_count) AS system, sum(idle_ns * gpu_count) AS idle, sum(unattributed_ns * gpu_count) AS unattributed,
    sum(down_ns * gpu_count) AS down, sum(rented_ns * gpu_count) AS rented
FROM engine_time
WHERE minute >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND minute < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
