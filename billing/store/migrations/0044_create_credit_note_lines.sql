-- blocking: no. Which lines of which invoice a credit note takes back, and how much of each.
CREATE VIEW credit_note_lines AS
SELECT
    tenant, billing_month, number, invoice,
    toUInt32(JSONExtractUInt(line, 'position')) AS position,
    toUInt32(JSONExtractUInt(line, 'line')) AS invoice_line,
    JSONExtractString(line, 'kind') AS item,
    JSONExtractString(line, 'description') AS description,
    toDecimal128(JSONExtractString(line, 'charged'), 18) AS charged,
    toDecimal128(JSONExtractString(line, 'credited_before'), 18) AS credited_before,
    toDecimal128(JSONExtractString(line, 'amount'), 18) AS amount,
    currency
FROM
(
    SELECT tenant, billing_month, number, invoice, currency, arrayJoin(JSONExtractArrayRaw(document, 'lines')) AS line
    FROM credit_notes
)
