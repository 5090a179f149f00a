-- blocking: no. Attributed cost per million delivered output tokens, by month, tenant and adapter; null when nothing was delivered.
CREATE VIEW finance_unit_price AS
SELECT
    row.billing_month AS billing_month, row.tenant AS tenant, row.adapter AS adapter, row.currency AS currency,
    sum(row.output_tokens) AS output_tokens, sum(row.cost) AS cost,
    if(sum(row.output_tokens) = 0, NULL, sum(row.cost) * 1000000 / greatest(sum(row.output_tokens), 1)) AS cost_per_million_tokens
FROM tenant_cost AS row
GROUP BY billing_month, tenant, adapter, currency
