-- Months before the given one of which, after they were closed, costs of a tenant became known that has no invoice of that month.
SELECT DISTINCT learned.billing_month AS billing_month
FROM
(
    SELECT tenant, billing_month, fromUnixTimestamp64Nano(toInt64(max(version)), 'UTC') AS learned_at
    FROM tenant_cost_versions
    WHERE billing_month < {month:String} AND tenant NOT IN {nobody:Array(String)}
    GROUP BY tenant, billing_month
) AS learned
INNER JOIN billing_periods AS closed ON closed.billing_month = learned.billing_month
WHERE learned.learned_at > closed.closed_at
    AND (learned.tenant, learned.billing_month) NOT IN (SELECT tenant, billing_month FROM issued_documents WHERE kind = 'invoice')
ORDER BY billing_month
