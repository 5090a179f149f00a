-- The files of a document, as they were made before it was issued.
SELECT form, content
FROM document_file_versions FINAL
WHERE number = {number:String} AND document_hash = {document_hash:String}
