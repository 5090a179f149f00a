-- Methods and step profiles behind a tenant's records of a period.
SELECT groupUniqArray(method) AS methods, groupUniqArray(profile) AS profiles
FROM usage
WHERE tenant = {tenant:String} AND arrival >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND arrival < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
