"""Derived time and cost in the ledger."""
