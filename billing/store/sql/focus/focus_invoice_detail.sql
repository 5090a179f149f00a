-- A billing month of focus_invoice_detail, of one tenant or of all.
SELECT * FROM focus_invoice_detail
WHERE x_BillingMonth = {month:String} AND ({tenant:String} = '' OR BillingAccountId = {tenant:String})
ORDER BY InvoiceId, InvoiceDetailId
