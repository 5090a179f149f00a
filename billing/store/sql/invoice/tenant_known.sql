-- A tenant as the catalog declared it at a knowledge time.
SELECT document
FROM tenants
WHERE tenant = {tenant:String} AND known_at <= fromUnixTimestamp64Nano({known_ns:Int64}, 'UTC')
ORDER BY known_at DESC
LIMIT 1
