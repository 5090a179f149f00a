-- blocking: no. One row per attempt: what was measured, what shared prefixes move to it or away from it, and both together. For people: bills use measured_ns.
CREATE VIEW finance_request_reshare AS
SELECT
    records.tenant AS tenant, records.arrival AS arrival, records.request_id AS request_id, records.attempt AS attempt,
    records.emitter AS emitter, records.seq AS seq, records.adapter AS adapter, records.engine AS engine, records.status AS status,
    records.input_tokens AS input_tokens, records.cached_tokens AS cached_tokens,
    records.base_ns + records.adapter_ns AS measured_ns,
    lines.ns AS reshare_ns,
    records.base_ns + records.adapter_ns + lines.ns AS as_if_shared_ns
FROM usage AS records
LEFT JOIN
(
    SELECT tenant, attempt, sum(ns) AS ns
    FROM prefix_reshare
    GROUP BY tenant, attempt
) AS lines ON lines.tenant = records.tenant AND lines.attempt = concat(records.emitter, ':', toString(records.seq))
