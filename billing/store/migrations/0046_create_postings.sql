-- blocking: no. The ledger: debits and credits of every document are equal; read in the order of position and entry.
CREATE VIEW postings AS
SELECT
    tenant, position, entry, document, kind, account, line, item, rate, billing_month, booked_on, invoice, currency, debit, credit,
    previous_hash, hash
FROM posting_versions FINAL
