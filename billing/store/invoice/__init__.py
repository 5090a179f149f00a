"""Documents in the ledger: drafting, numbering, printing, chaining, posting."""
