"""Invoices as people and programs read them: PDF, CSV, JSON."""
