-- The month's drafts, its issued invoices, and the credit notes that were issued in it by their own date, as they were written.
SELECT kind, number, document
FROM
(
    SELECT 'invoice' AS kind, number, document FROM invoices WHERE number = '' AND billing_month = {month:String}
    UNION ALL
    SELECT kind, number, document FROM issued_documents WHERE kind = 'invoice' AND billing_month = {month:String}
    UNION ALL
    SELECT kind, number, document FROM issued_documents
    WHERE kind = 'credit_note' AND startsWith(JSONExtractString(document, 'issued_on'), {month:String})
)
ORDER BY kind DESC, number
