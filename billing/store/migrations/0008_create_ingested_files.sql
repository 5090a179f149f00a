-- blocking: no.
CREATE VIEW ingested_files AS
SELECT file, read_offset, prefix_hash, path, at
FROM ingested_file_versions FINAL
