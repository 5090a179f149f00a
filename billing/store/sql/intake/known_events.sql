-- Identities of events that the ledger already has, among the given emitters and range of numbers.
SELECT DISTINCT name, emitter, seq FROM ledger_event_versions
WHERE emitter IN {emitters:Array(String)} AND seq >= {low:Int64} AND seq <= {high:Int64}
