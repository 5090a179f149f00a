-- Which of these entries the ledger already has, open or resolved.
SELECT id, resolution FROM quarantine_versions FINAL WHERE id IN {ids:Array(String)}
