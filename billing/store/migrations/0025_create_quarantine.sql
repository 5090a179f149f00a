-- blocking: no. Open entries only: a month with one of them cannot close.
CREATE VIEW quarantine AS
SELECT id, kind, at, event_time, tenant, emitter, seq, source, reason, content
FROM quarantine_versions FINAL
WHERE resolution = ''
