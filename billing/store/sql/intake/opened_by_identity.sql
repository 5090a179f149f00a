-- What attempts said of themselves when they opened, among the given emitters and range of numbers.
SELECT emitter, seq, JSONExtractString(body, 'tenant') AS tenant, JSONExtractString(body, 'request_id') AS request_id
FROM ledger_event_versions
WHERE name = {opened:String} AND emitter IN {emitters:Array(String)} AND seq >= {low:Int64} AND seq <= {high:Int64}
