-- Engines that attempts of one gateway process ran on in a stretch of time, and how many of these attempts the meter had no figures of.
SELECT assumeNotNull(engine) AS engine_id, countIf(NOT measured AND status != 'lost') AS unmeasured
FROM usage
WHERE emitter = {emitter:String} AND engine IS NOT NULL
    AND arrival >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND arrival < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
GROUP BY engine_id
ORDER BY engine_id
