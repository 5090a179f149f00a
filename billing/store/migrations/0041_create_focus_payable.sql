-- blocking: no. What the charges of each document sum to by each version of FOCUS: both are what the document asks for.
CREATE VIEW focus_payable AS
SELECT
    new.invoice AS invoice, new.billing_month AS billing_month, new.tenant AS tenant, new.currency AS currency,
    new.cost AS billed_v1_4, old.cost AS billed_v1_2
FROM
(
    SELECT InvoiceId AS invoice, x_BillingMonth AS billing_month, SubAccountId AS tenant, BillingCurrency AS currency, sum(BilledCost) AS cost
    FROM focus_v1_4
    GROUP BY invoice, billing_month, tenant, currency
) AS new
LEFT JOIN (SELECT InvoiceId AS invoice, sum(BilledCost) AS cost FROM focus_v1_2 GROUP BY invoice) AS old ON old.invoice = new.invoice
