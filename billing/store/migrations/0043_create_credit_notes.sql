-- blocking: no. Issued credit notes; amounts are what the customer gets back.
CREATE VIEW credit_notes AS
SELECT
    tenant, billing_month, number, issued_at,
    JSONExtractString(document, 'invoice') AS invoice,
    JSONExtractString(document, 'reason') AS reason,
    JSONExtractString(document, 'explanation') AS explanation,
    JSONExtractString(document, 'currency') AS currency,
    toDecimal128(JSONExtractString(document, 'net'), 18) AS net,
    toDecimal128(JSONExtractString(document, 'tax'), 18) AS tax,
    toDecimal128(JSONExtractString(document, 'gross'), 18) AS gross,
    toDecimal128(JSONExtractString(document, 'remaining_gross'), 18) AS remaining_gross,
    document, hash, prev_hash
FROM issued_documents
WHERE kind = 'credit_note'
