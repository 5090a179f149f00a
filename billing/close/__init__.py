"""When a month may be closed, and what keeps whom waiting."""
