-- UTC days of a window that have engine time, attempts, or cost rows from before, the others have nothing to derive.
SELECT DISTINCT day_ns
FROM
(
    SELECT intDiv(toUnixTimestamp64Nano(toDateTime64(minute, 9, 'UTC')), 86400000000000) * 86400000000000 AS day_ns
    FROM engine_time_versions
    WHERE minute >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND minute < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    UNION ALL
    SELECT intDiv(toUnixTimestamp64Nano(toDateTime64(quarter, 9, 'UTC')), 86400000000000) * 86400000000000
    FROM tenant_cost_versions
    WHERE quarter >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND quarter < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    UNION ALL
    SELECT intDiv(toUnixTimestamp64Nano(ifNull(finished, arrival)), 86400000000000) * 86400000000000
    FROM usage_versions
    WHERE arrival >= fromUnixTimestamp64Nano({start_ns:Int64} - 86400000000000, 'UTC') AND arrival < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    UNION ALL
    SELECT intDiv(slice_ns, 86400000000000) * 86400000000000
    FROM usage_versions
    ARRAY JOIN slices.start_ns AS slice_ns
    WHERE arrival >= fromUnixTimestamp64Nano({start_ns:Int64} - 86400000000000, 'UTC') AND arrival < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
)
ORDER BY day_ns
