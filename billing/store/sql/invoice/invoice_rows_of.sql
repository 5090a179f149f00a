-- Issued documents as finance reads them, by number.
SELECT tenant, billing_month, kind, number, status, issued_at, currency, net, tax, gross, document, hash, prev_hash
FROM invoices
WHERE number IN {numbers:Array(String)}
