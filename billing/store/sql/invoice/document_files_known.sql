-- Which of these documents have files already.
SELECT DISTINCT document_hash
FROM document_file_versions
WHERE document_hash IN {document_hashes:Array(String)}
