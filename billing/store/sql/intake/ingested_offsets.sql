-- How far a file was read, by its first line, the prefix hash tells files with the same first line apart.
SELECT read_offset, prefix_hash FROM ingested_files WHERE file = {file:String} ORDER BY read_offset DESC
