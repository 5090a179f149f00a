-- Draft documents of one month.
SELECT tenant, billing_month, kind, number, status, issued_at, currency, net, tax, gross, document, hash, prev_hash
FROM invoices
WHERE status = 'draft' AND billing_month = {month:String}
