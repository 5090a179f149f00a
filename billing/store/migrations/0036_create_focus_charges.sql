-- blocking: no.
CREATE VIEW focus_charges AS
SELECT
    tenant, billing_month, invoice, charge, issued, reference, detail, item, category, correction, recurring, description,
    tenant_name, plan, issuer, period_start, period_end, start, end, currency, cost, pricing_currency, pricing_cost,
    quantity, unit, unit_price, pricing_price, sku, meter, instance, consumed, consumed_unit, resource, resource_type, requests,
    price_book, method, ledger_hash
FROM focus_charge_versions FINAL
