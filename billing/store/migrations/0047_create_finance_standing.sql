-- blocking: no. What stands of each tenant's month, net: as issued, corrected on later invoices, credited, and their sum.
CREATE VIEW finance_standing AS
SELECT
    tenant, billing_month, currency,
    sumIf(credit - debit, kind = 'invoice' AND invoice = document) AS issued,
    sumIf(credit - debit, kind = 'invoice' AND invoice != document) AS corrected,
    sumIf(debit - credit, kind = 'credit_note') AS credited,
    sum(credit - debit) AS standing
FROM postings
WHERE account = 'revenue'
GROUP BY tenant, billing_month, currency
