-- blocking: no. One row per attempt and line: nanoseconds that a shared prefix moves to the attempt (or away from it). Each line (emitter, seq) sums to 0.
CREATE VIEW prefix_reshare AS
SELECT tenant, at, adapter, engine, emitter, seq, move.attempt AS attempt, move.ns AS ns
FROM
(
    SELECT
        JSONExtractString(body, 'tenant') AS tenant, at, JSONExtract(body, 'adapter', 'Nullable(String)') AS adapter,
        JSONExtractString(body, 'engine') AS engine, emitter, seq,
        JSONExtract(body, 'moves', 'Array(Tuple(attempt String, ns Int64))') AS moves
    FROM ledger_events
    WHERE name = 'loraledger.prefix.reshare'
)
ARRAY JOIN moves AS move
