-- blocking: no. Attempts (emitter:seq) of which the meter and the record, or the catalog, do not agree whose they are: charged to nobody, also once that is given up.
CREATE VIEW disputed_attempts AS
SELECT if(seq < 0, emitter, concat(emitter, ':', toString(seq))) AS attempt, at, event_time, reason, resolution
FROM quarantine_versions FINAL
WHERE kind = 'share' AND resolution != 'accepted by a later run'
