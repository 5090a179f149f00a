-- Documents of the months in the time range; drafts have no number.
SELECT billing_month, tenant, kind, number, status, issued_at, toFloat64(net) AS net_amount, toFloat64(tax) AS tax_amount, toFloat64(gross) AS gross_amount, currency
FROM loraledger.invoices
WHERE billing_month >= formatDateTime($__fromTime, '%Y-%m') AND billing_month <= formatDateTime($__toTime, '%Y-%m')
    AND $__conditionalAll(tenant IN (${tenant:singlequote}), $tenant)
ORDER BY billing_month DESC, tenant, number
