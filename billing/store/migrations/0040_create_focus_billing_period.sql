-- blocking: no. FOCUS 1.4 Billing Period: a period per time zone in which a billing month was invoiced.
CREATE VIEW focus_billing_period AS
SELECT
    period.start AS BillingPeriodCreated,
    period.end AS BillingPeriodEnd,
    toDateTime(if(closed.status = 'closed', closed.closed_at, period.cutoff), 'UTC') AS BillingPeriodLastUpdated,
    period.start AS BillingPeriodStart,
    if(closed.status = 'closed', 'Closed', 'Open') AS BillingPeriodStatus,
    period.issuer AS InvoiceIssuerName,
    period.billing_month AS x_BillingMonth
FROM
(
    SELECT
        billing_month,
        parseDateTimeBestEffort(JSONExtractString(document, 'start'), 'UTC') AS start,
        parseDateTimeBestEffort(JSONExtractString(document, 'end'), 'UTC') AS end,
        JSONExtractString(document, 'seller', 'name') AS issuer,
        max(parseDateTimeBestEffort(JSONExtractString(document, 'cutoff'), 'UTC')) AS cutoff
    FROM invoices
    WHERE kind = 'invoice'
    GROUP BY billing_month, start, end, issuer
) AS period
LEFT JOIN billing_periods AS closed ON closed.billing_month = period.billing_month
