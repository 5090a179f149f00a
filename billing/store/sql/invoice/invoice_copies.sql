-- Numbers of the issued invoices of a billing month that stand for finance.
SELECT number
FROM invoices
WHERE status = 'issued' AND kind = 'invoice' AND billing_month = {month:String}
