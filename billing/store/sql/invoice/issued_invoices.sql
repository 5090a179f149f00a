-- Issued invoices of one billing month and one tenant, either may be empty for all, in the order of issue.
SELECT position, kind, number, tenant, billing_month, issued_at, document, hash, prev_hash
FROM issued_documents
WHERE kind = 'invoice' AND ({month:String} = '' OR billing_month = {month:String}) AND ({tenant:String} = '' OR tenant = {tenant:String})
ORDER BY position
