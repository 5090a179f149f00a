-- The newest content hash of each entry of each price book, keyed as the catalog writes it.
SELECT concat(book, ' ', gpu_type, ' ', formatDateTime(start, '%Y-%m-%dT%H:%i:%S', 'UTC'), '+00:00') AS entry, argMax(hash, known_at) AS newest
FROM prices
GROUP BY book, gpu_type, start
