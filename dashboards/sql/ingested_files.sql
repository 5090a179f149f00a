-- Spool files and how far each was read.
SELECT path, read_offset AS read_bytes, at
FROM loraledger.ingested_files
ORDER BY at DESC
LIMIT 50
