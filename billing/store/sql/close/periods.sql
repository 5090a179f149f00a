-- What is said of every billing month up to one, and when it was said.
SELECT billing_month, status, closed_at
FROM billing_periods
WHERE billing_month <= {month:String}
ORDER BY billing_month
