-- The closed period of a billing month.
SELECT documents
FROM billing_periods
WHERE billing_month = {month:String} AND status = 'closed'
