"""Shows: boards as functions, generated JSON."""
