"""Declares: the one catalog file, validated, as values every room reads."""
