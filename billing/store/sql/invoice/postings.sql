-- Postings in the order of the ledger, of one tenant or (empty) of all.
SELECT document, entry, kind, account, line, item, rate, tenant, billing_month, booked_on, invoice, currency, debit, credit, previous_hash, hash
FROM postings
WHERE {tenant:String} = '' OR tenant = {tenant:String}
ORDER BY position, entry
