-- What was found to block a month when it was last closed.
SELECT billing_month, id, kind, what, tenants, waiting, engine, records, tokens, engine_ns, cost, advice
FROM billing_blocks FINAL
WHERE billing_month = {month:String}
