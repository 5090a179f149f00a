"""The ClickHouse door: migrations, SQL files, reads and writes."""
