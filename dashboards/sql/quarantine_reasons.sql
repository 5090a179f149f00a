-- What blocks a close, by reason.
SELECT reason, kind, tenant, count() AS records, min(event_time) AS first, max(event_time) AS last
FROM loraledger.quarantine
GROUP BY reason, kind, tenant
ORDER BY records DESC, reason, kind, tenant
