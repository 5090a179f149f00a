-- Documents as finance reads them, by number (empty: drafts), of one month or (empty) of all.
SELECT tenant, billing_month, kind, number, status, issued_at, currency, net, tax, gross, document, hash, prev_hash
FROM invoices
WHERE number IN {numbers:Array(String)} AND ({month:String} = '' OR billing_month = {month:String})
