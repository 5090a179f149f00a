-- When anything was derived last, and when a file was read last.
SELECT (SELECT max(derived_at) FROM ledger_derivations) AS derived_at, (SELECT max(at) FROM ingested_file_versions) AS taken_at
