-- blocking: no. Whether the dates of an entry hold for the past too: it was said so when it became known.
ALTER TABLE tenants
ADD COLUMN IF NOT EXISTS restated UInt8 DEFAULT 0 COMMENT '1: dates before known_at hold'
