-- What stands at one place of the chain.
SELECT hash
FROM issued_documents
WHERE position = {position:Int64}
