-- blocking: no. Numbers that are not missing, since what has them waits in quarantine or was given up; what was taken later stands in its own place.
CREATE VIEW quarantined_numbers AS
SELECT
    if(
        kind = 'usage' OR JSONExtractString(content, 'schema') != '' OR startsWith(reason, 'loraledger.usage.opened '),
        'attempts', splitByChar(' ', reason)[1]
    ) AS name,
    concat(name, ' ', emitter) AS stream, emitter, seq, toUnixTimestamp64Nano(ifNull(event_time, toDateTime64(at, 9, 'UTC'))) AS at_ns
FROM quarantine_versions FINAL
WHERE emitter != '' AND seq >= 0 AND kind != 'share' AND resolution != 'accepted by a later run'
    AND (JSONExtractString(content, 'schema') = '' OR JSONExtractString(content, 'source') IN ('gateway', 'ledger'))
