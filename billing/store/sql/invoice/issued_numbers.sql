-- Numbers taken in a series.
SELECT number
FROM issued_documents
WHERE startsWith(number, {prefix:String})
