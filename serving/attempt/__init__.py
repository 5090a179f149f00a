"""One attempt from its opening to its record: client, quotas, adapter, engine, answer."""
