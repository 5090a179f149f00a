-- Booked records of the given emitters and range of numbers, instants as exact nanoseconds.
SELECT
    *,
    toUnixTimestamp64Nano(arrival) AS arrival_at_ns,
    if(admitted IS NULL, NULL, toUnixTimestamp64Nano(assumeNotNull(admitted))) AS admitted_at_ns,
    if(first_token IS NULL, NULL, toUnixTimestamp64Nano(assumeNotNull(first_token))) AS first_token_at_ns,
    if(finished IS NULL, NULL, toUnixTimestamp64Nano(assumeNotNull(finished))) AS finished_at_ns
FROM usage
WHERE emitter IN {emitters:Array(String)} AND seq >= {low:Int64} AND seq <= {high:Int64}
