-- blocking: no.
CREATE VIEW invoices AS
SELECT tenant, billing_month, kind, number, status, issued_at, currency, net, tax, gross, document, hash, prev_hash
FROM invoice_versions FINAL
