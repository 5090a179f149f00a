-- The oldest billing month with costs that is not closed, or an empty text.
SELECT min(billing_month) AS month
FROM tenant_cost
WHERE billing_month NOT IN (SELECT billing_month FROM billing_periods WHERE status = 'closed')
