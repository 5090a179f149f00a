-- Sequence numbers that never arrived, by gateway process.
SELECT emitter, count() AS records, max(seq) + 1 AS expected, expected - records AS missing, min(arrival) AS first, max(arrival) AS last
FROM loraledger.usage
GROUP BY emitter
ORDER BY missing DESC, last DESC
LIMIT 50
