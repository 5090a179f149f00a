-- Months that hold costs, and when each was closed, null while it is open.
SELECT costs.billing_month AS billing_month, if(periods.status = 'closed', periods.closed_at, NULL) AS closed_at
FROM (SELECT DISTINCT billing_month FROM tenant_cost) AS costs
LEFT JOIN billing_periods AS periods ON periods.billing_month = costs.billing_month
ORDER BY billing_month
