-- Every price of a GPU-hour that the ledger knew at a knowledge time, by book, type and start.
SELECT concat(book, ' ', gpu_type, ' from ', formatDateTime(start, '%Y-%m-%dT%H:%i:%SZ')) AS entry, argMax(per_hour, known_at) AS newest
FROM prices
WHERE known_at <= fromUnixTimestamp64Nano({known_ns:Int64}, 'UTC')
GROUP BY entry
ORDER BY entry
