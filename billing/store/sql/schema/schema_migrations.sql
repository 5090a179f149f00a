-- Every migration that ran.
SELECT number, name, hash FROM schema_migrations ORDER BY number
