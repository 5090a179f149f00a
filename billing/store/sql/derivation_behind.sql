-- Whether a stretch of time was derived as a whole, when last and with which catalog, and when files were read after that.
SELECT max(derived_at) AS derived_at, argMax(catalog_version, derived_at) AS catalog_version, count() AS derivations,
    (SELECT max(at) FROM ingested_file_versions) AS taken_at
FROM ledger_derivations
WHERE start_ns <= {start_ns:Int64} AND end_ns >= {end_ns:Int64}
