-- Issued invoices of earlier months of which the ledger learned something after they were made, where idle time is shared, of anybody or of idle time.
SELECT DISTINCT documents.tenant AS tenant, documents.number AS number, documents.position AS position
FROM
(
    SELECT
        tenant, billing_month, number, position, JSONExtractString(document, 'idle_policy') = 'provider' AS alone,
        toUnixTimestamp64Nano(parseDateTime64BestEffort(JSONExtractString(document, 'cutoff'), 9, 'UTC')) AS cutoff_ns
    FROM issued_documents
    WHERE kind = 'invoice' AND billing_month < {month:String}
) AS documents
INNER JOIN
(
    SELECT tenant, billing_month, max(version) AS learned_ns
    FROM tenant_cost_versions
    GROUP BY tenant, billing_month
    UNION ALL
    SELECT '' AS tenant, formatDateTime(hour, '%Y-%m', 'UTC') AS billing_month, max(version) AS learned_ns
    FROM engine_cost_versions
    WHERE owner = 'idle'
    GROUP BY billing_month
) AS learned ON learned.billing_month = documents.billing_month
WHERE learned_ns > cutoff_ns AND (NOT alone OR learned.tenant = documents.tenant)
ORDER BY position
