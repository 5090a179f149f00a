-- The newest content hash of each tenant.
SELECT tenant AS entry, argMax(hash, known_at) AS newest FROM tenants GROUP BY tenant
