-- Issued invoices as finance reads them, of one billing month, or of all when it is empty.
SELECT number, document, hash
FROM invoices
WHERE status = 'issued' AND kind = 'invoice' AND ({month:String} = '' OR billing_month = {month:String})
