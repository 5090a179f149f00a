-- Lines of documents as finance reads them, by number (empty: drafts), of one month or (empty) of all, in their order.
SELECT tenant, billing_month, kind, number, line, item, description, quantity, unit, unit_price, exact, amount, currency
FROM invoice_lines
WHERE number IN {numbers:Array(String)} AND ({month:String} = '' OR billing_month = {month:String})
ORDER BY number, line
