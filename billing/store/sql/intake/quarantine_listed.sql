-- Entries for people, oldest first: those that are open, or with `all` those that were accepted or released too.
SELECT id, kind, at, event_time, tenant, emitter, seq, source, reason, resolution
FROM quarantine_versions FINAL
WHERE resolution = '' OR {all:Bool}
ORDER BY at, source, id
