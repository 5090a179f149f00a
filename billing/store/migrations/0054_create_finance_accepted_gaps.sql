-- blocking: no. Gaps that the provider took on: which, what it costs, who decided so, when and why. They stand in the chain of documents and in postings.
CREATE VIEW finance_accepted_gaps AS
SELECT
    billing_month, JSONExtractString(document, 'gap') AS gap, JSONExtractString(document, 'kind') AS kind, JSONExtractString(document, 'what') AS what,
    JSONExtract(document, 'tenants', 'Array(String)') AS tenants,
    JSONExtractString(document, 'engine') AS engine,
    JSONExtract(document, 'records', 'Nullable(Int64)') AS records,
    JSONExtract(document, 'tokens', 'Nullable(Int64)') AS tokens,
    JSONExtract(document, 'engine_ns', 'Nullable(Int64)') AS engine_ns,
    toDecimal128(JSONExtractString(document, 'cost'), 18) AS cost,
    JSONExtractString(document, 'currency') AS currency,
    JSONExtractString(document, 'reason') AS reason, JSONExtractString(document, 'accepted_by') AS accepted_by,
    number, position, issued_at AS accepted_at
FROM issued_documents
WHERE issued_documents.kind = 'acceptance'
