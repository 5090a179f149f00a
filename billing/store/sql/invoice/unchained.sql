-- What says that it was issued and is not in the chain, or is there twice.
SELECT number, fact
FROM
(
    SELECT DISTINCT number, 'it stands in invoices and not in issued_documents' AS fact FROM invoices WHERE status = 'issued'
        AND number NOT IN (SELECT number FROM issued_documents)
    UNION ALL SELECT DISTINCT number, 'it stands in invoice_lines and not in issued_documents' AS fact FROM invoice_lines
        WHERE number != '' AND number NOT IN (SELECT number FROM issued_documents)
    UNION ALL SELECT DISTINCT document AS number, 'it is posted and not in issued_documents' AS fact FROM postings
        WHERE document NOT IN (SELECT number FROM issued_documents)
    UNION ALL SELECT number, 'its number is in issued_documents more than once' AS fact FROM issued_documents
        GROUP BY number HAVING count() > 1
)
ORDER BY number, fact
LIMIT 1000
