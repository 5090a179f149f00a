-- End of the last quarter hour that costs were ever derived of, 0 in an empty ledger.
SELECT if(count() = 0, 0, toUnixTimestamp64Milli(max(quarter)) * 1000000 + 900000000000) AS until_ns
FROM tenant_cost_versions
