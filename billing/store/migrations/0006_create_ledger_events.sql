-- blocking: no. One row per event, whether or not the parts underneath were merged.
CREATE VIEW ledger_events AS
SELECT name, emitter, seq, at, body, start_ns, end_ns
FROM ledger_event_versions FINAL
