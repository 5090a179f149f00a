"""Opens the door: command line, settings, demo; the only place that wires all rooms."""
