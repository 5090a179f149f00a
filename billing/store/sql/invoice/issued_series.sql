-- The newest number of each series and kind of document, in the order of issue.
SELECT kind, argMax(number, issued.position) AS newest
FROM issued_documents AS issued
WHERE kind IN ('invoice', 'credit_note')
GROUP BY kind, replaceRegexpOne(number, '[0-9]+$', '')
ORDER BY max(issued.position)
