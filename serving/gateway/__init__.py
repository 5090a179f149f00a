"""The gateway: HTTP in and out, one usage record per attempt."""
