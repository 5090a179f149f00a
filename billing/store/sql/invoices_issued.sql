-- Issued documents, by number, the chain is read in the order of issue.
SELECT tenant, billing_month, number, document, hash, prev_hash, issued_at
FROM invoices
WHERE status = 'issued' AND kind = 'invoice' AND ({month:String} = '' OR billing_month = {month:String})
ORDER BY issued_at, number
