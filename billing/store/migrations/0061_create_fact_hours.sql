-- blocking: no. UTC hours of which events or spans were taken in, and when last: what came after a month was derived is not in it yet.
CREATE TABLE fact_hours
(
    hour_ns Int64 COMMENT 'UTC nanoseconds',
    taken_at DateTime64(6, 'UTC')
)
ENGINE = ReplacingMergeTree(taken_at)
ORDER BY hour_ns
