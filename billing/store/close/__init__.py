"""What keeps a month from its invoices, as the ledger has it."""
