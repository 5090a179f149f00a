-- What each tenant used, cost and was asked for in its own billing months; unmeasured above 0 marks partial sums.
SELECT billing_month, tenant, requests, unmeasured, input_tokens, cached_tokens, output_tokens, toFloat64(gpu_hours) AS hours, toFloat64(cost) AS cost_total,
    toFloat64(revenue) AS revenue_total, toFloat64(margin) AS margin_total, currency
FROM loraledger.finance_tenant_month
WHERE billing_month >= formatDateTime($__fromTime, '%Y-%m') AND billing_month <= formatDateTime($__toTime, '%Y-%m')
    AND $__conditionalAll(tenant IN (${tenant:singlequote}), $tenant)
ORDER BY billing_month DESC, cost DESC
