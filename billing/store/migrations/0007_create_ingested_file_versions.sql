-- blocking: no. How far each file was read. A file is known by its content: the hash of its first line, and of everything read so far.
CREATE TABLE ingested_file_versions
(
    file String COMMENT 'sha256 of the first complete line',
    read_offset UInt64 COMMENT 'bytes read and stored',
    prefix_hash String COMMENT 'sha256 of those bytes: another file with the same first line is not taken for this one',
    path String,
    at DateTime64(6, 'UTC')
)
ENGINE = ReplacingMergeTree(read_offset)
ORDER BY (file, prefix_hash)
