-- Credit notes issued after one instant, up to and at another.
SELECT tenant, number, invoice, billing_month, currency, net
FROM credit_notes
WHERE issued_at > fromUnixTimestamp64Nano({since_ns:Int64}, 'UTC') AND issued_at <= fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
ORDER BY issued_at, number
