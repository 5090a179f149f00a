-- The last posting of the ledger.
SELECT position, hash
FROM postings
ORDER BY position DESC, entry DESC
LIMIT 1
