-- blocking: no.
CREATE VIEW billing_periods AS
SELECT billing_month, status, closed_at, catalog_version, documents, cost, currency
FROM billing_period_versions FINAL
