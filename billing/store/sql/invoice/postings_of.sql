-- Postings of documents, by number, in the order of the ledger.
SELECT document AS number, position, document, entry, kind, account, line, item, rate, tenant, billing_month, booked_on, invoice, currency,
    debit, credit, previous_hash, hash
FROM postings
WHERE document IN {numbers:Array(String)}
ORDER BY position, entry
