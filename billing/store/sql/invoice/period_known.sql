-- What is said of a billing month: closed, or partly.
SELECT status, documents
FROM billing_periods
WHERE billing_month = {month:String}
