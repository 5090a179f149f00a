"""All that runs in vLLM's own processes."""
