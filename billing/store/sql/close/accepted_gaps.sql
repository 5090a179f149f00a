-- Gaps that the provider took on, in the order of acceptance: of one month or all.
SELECT number, document
FROM issued_documents
WHERE kind = 'acceptance' AND ({month:String} = '' OR billing_month = {month:String})
ORDER BY position
