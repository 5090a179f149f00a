-- Issued documents of one kind, billing month, tenant and number, each may be empty for all, in the order of issue.
SELECT position, kind, number, tenant, billing_month, issued_at, document, hash, prev_hash
FROM issued_documents
WHERE ({kind:String} = '' OR kind = {kind:String}) AND ({month:String} = '' OR billing_month = {month:String})
    AND ({tenant:String} = '' OR tenant = {tenant:String}) AND ({number:String} = '' OR number = {number:String})
ORDER BY position
