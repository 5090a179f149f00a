"""The report page: one self-contained HTML file of a billing month, for tenants, finance and on-call."""
