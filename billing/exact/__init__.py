"""Numbers and time that are exact: money, quantities, canonical bytes, UTC windows and billing months."""
