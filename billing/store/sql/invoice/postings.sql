-- Postings in the order of the ledger, of one tenant or (empty) of all, of some documents or (none named) of all.
SELECT position, document, entry, kind, account, line, item, rate, tenant, billing_month, booked_on, invoice, currency, debit, credit, previous_hash, hash
FROM postings
WHERE ({tenant:String} = '' OR tenant = {tenant:String}) AND (empty({numbers:Array(String)}) OR document IN {numbers:Array(String)})
ORDER BY position, entry
