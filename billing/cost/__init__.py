"""Whose time it was and what it cost: facts, attempts, engine minutes, attribution."""
