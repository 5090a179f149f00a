-- Which of these emitters the ledger knows by events of their own, that only a spool or a collector of the operator brings.
SELECT DISTINCT emitter FROM ledger_event_versions WHERE emitter IN {emitters:Array(String)}
