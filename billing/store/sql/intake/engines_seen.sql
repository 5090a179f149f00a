-- Which of these engines told of themselves: by a session, a window or a load of theirs.
SELECT DISTINCT JSONExtractString(body, 'engine') AS engine
FROM ledger_event_versions
WHERE name IN ({session:String}, {window:String}) AND engine IN {engines:Array(String)}
