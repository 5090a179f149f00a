-- Tenants with cost rows in a billing month, cut in each tenant's own time zone.
SELECT DISTINCT tenant
FROM tenant_cost
WHERE billing_month = {month:String}
