-- When a stretch of time was derived as a whole, last and how often, with which catalog, and when files were read last.
SELECT
    max(made.derived_at) AS derived_at, argMax(made.catalog_version, made.derived_at) AS catalog_version, count() AS derivations,
    (SELECT max(at) FROM ingested_file_versions) AS taken_at
FROM ledger_derivations AS made
WHERE made.start_ns <= {start_ns:Int64} AND made.end_ns >= {end_ns:Int64}
