-- What the kept files of documents are now, beside what they were when they were made.
SELECT number, document_hash, form, content_hash, lower(hex(SHA256(tryBase64Decode(content)))) AS found_hash
FROM document_file_versions FINAL
WHERE number IN {numbers:Array(String)}
