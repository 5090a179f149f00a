-- blocking: no.
CREATE VIEW cold_starts AS
SELECT adapter, emitter, seq, engine, adapter_hash, cause, start, engine_ns, fetch_ns, read_ns, activate_ns, size_bytes, stalled
FROM cold_start_versions FINAL
