-- Issued credit notes of one tenant, in the order of issue.
SELECT position, kind, number, tenant, billing_month, issued_at, document, hash, prev_hash
FROM issued_documents
WHERE kind = 'credit_note' AND tenant = {tenant:String}
ORDER BY position
