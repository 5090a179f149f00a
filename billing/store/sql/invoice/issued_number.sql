-- The issued document of one number.
SELECT position, kind, number, tenant, billing_month, issued_at, document, hash, prev_hash
FROM issued_documents
WHERE number = {number:String}
