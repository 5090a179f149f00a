-- blocking: no. Days of a tenant's month are looked up by arrival, which the sorting key does not have; seq grows with it.
ALTER TABLE usage_versions
ADD INDEX IF NOT EXISTS idx_arrival arrival TYPE minmax GRANULARITY 1
