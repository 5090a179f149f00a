-- Attributed cost per million delivered output tokens in the months of the time range; empty when nothing was delivered.
SELECT billing_month, tenant, adapter, output_tokens, toFloat64(cost) AS cost_total, toFloat64(cost_per_million_tokens) AS per_million, currency
FROM loraledger.finance_unit_price
WHERE billing_month >= formatDateTime($__fromTime, '%Y-%m') AND billing_month <= formatDateTime($__toTime, '%Y-%m')
    AND $__conditionalAll(tenant IN (${tenant:singlequote}), $tenant)
ORDER BY billing_month DESC, cost DESC
