-- The newest content hash of each adapter.
SELECT adapter AS entry, argMax(hash, known_at) AS newest FROM adapters GROUP BY adapter
