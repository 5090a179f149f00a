"""The commands, by who uses them."""
