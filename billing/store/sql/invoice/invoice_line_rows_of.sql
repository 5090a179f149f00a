-- Lines of issued invoices as finance reads them, by number, in their order.
SELECT tenant, billing_month, kind, number, line, item, description, quantity, unit, unit_price, exact, amount, currency
FROM invoice_lines
WHERE number IN {numbers:Array(String)}
ORDER BY number, line
