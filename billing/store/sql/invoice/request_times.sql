-- Engine time of one tenant's request, by attempt: measured, and what shared prefixes move to it or away from it.
SELECT emitter, seq, request_id, measured_ns, reshare_ns
FROM finance_request_reshare
WHERE tenant = {tenant:String} AND request_id = {request:String}
ORDER BY emitter, seq
