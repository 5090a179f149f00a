"""Invoices and credit notes as people and programs read them: PDF, CSV, JSON, Factur-X."""
