-- blocking: no. Every file that was handed out, made and looked at before its document was numbered. A document that never got its place leaves
-- files that nobody asks for: they are found by the hash of the document's text, which issued_documents has or has not.
CREATE TABLE document_file_versions
(
    number String,
    document_hash String COMMENT 'sha256 of the document text that the file prints',
    form LowCardinality(String) COMMENT 'pdf, csv or json',
    content String COMMENT 'base64' CODEC(ZSTD(3)),
    content_hash String COMMENT 'sha256 of the file',
    made_at DateTime64(6, 'UTC')
)
ENGINE = ReplacingMergeTree
ORDER BY (number, document_hash, form)
