-- Values of the variable `tenant`.
SELECT DISTINCT tenant FROM loraledger.tenants ORDER BY tenant
