"""The doors to an engine: vLLM embedded, its files, its collector, and the process beside a server of its own."""
