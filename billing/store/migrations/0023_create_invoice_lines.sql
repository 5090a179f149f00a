-- blocking: no.
CREATE VIEW invoice_lines AS
SELECT tenant, billing_month, kind, number, line, item, description, quantity, unit, unit_price, exact, amount, currency
FROM invoice_line_versions FINAL
