-- Every tenant as the catalog declared it, in the order in which the ledger came to know it.
SELECT tenant, known_at, document, hash, restated
FROM tenants
ORDER BY tenant, known_at
