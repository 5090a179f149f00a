-- Numbers of the issued invoices of a billing month whose lines stand for finance.
SELECT DISTINCT number
FROM invoice_lines
WHERE billing_month = {month:String} AND number != ''
