"""Measures: the words that every room shares, and the ways out (spans, metrics, spool)."""
