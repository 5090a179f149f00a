"""Facts on their way into the ledger: files, lines, records, quarantine."""
