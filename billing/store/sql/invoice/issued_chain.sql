-- Issued documents behind a place of the chain, in its order, a page of them. What shares a place stays together.
SELECT position, kind, number, tenant, billing_month, issued_at, document, hash, prev_hash
FROM issued_documents
WHERE position > {after:Int64}
ORDER BY position
LIMIT 250 WITH TIES
