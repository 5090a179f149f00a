"""Shows: boards as rows, generated JSON."""
