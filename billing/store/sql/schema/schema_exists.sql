-- Whether the ledger has the table that remembers migrations.
SELECT count() > 0 AS there FROM system.tables WHERE database = currentDatabase() AND name = 'schema_migrations'
