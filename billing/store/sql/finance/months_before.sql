-- Billing months before the given one with costs of a tenant before an instant or a close, and how each stands: closed, partly closed, or an empty text.
SELECT billing_month, max(status) AS stands
FROM
(
    SELECT DISTINCT billing_month, '' AS status FROM tenant_cost WHERE tenant NOT IN {nobody:Array(String)} AND quarter < fromUnixTimestamp64Nano({before_ns:Int64}, 'UTC')
    UNION ALL
    SELECT billing_month, status FROM billing_periods
)
WHERE billing_month < {month:String}
GROUP BY billing_month
ORDER BY billing_month
