-- The last place of the chain of issued documents, 0 and an empty hash when there is none.
SELECT max(issued.position) AS position, argMax(issued.hash, issued.position) AS hash
FROM issued_documents AS issued
