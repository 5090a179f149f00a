"""What the engine process and the collector say to each other."""
