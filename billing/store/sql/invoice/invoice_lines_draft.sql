-- Lines of the drafts of one month.
SELECT tenant, billing_month, kind, number, line, item, description, quantity, unit, unit_price, exact, amount, currency
FROM invoice_lines
WHERE number = '' AND billing_month = {month:String}
