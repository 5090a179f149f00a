-- blocking: no. The one table the runner must have before it can keep account of itself.
CREATE TABLE schema_migrations
(
    number UInt32,
    name String,
    hash String COMMENT 'sha256 of the file as it was applied; a landed file never changes',
    applied_at DateTime64(6, 'UTC')
)
ENGINE = MergeTree
ORDER BY number
