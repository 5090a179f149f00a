"""Moves: facts become usage, cost and invoices, step by step, on a schedule or by command."""
