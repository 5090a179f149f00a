"""Warns: promises as data, rules, routing and runbooks."""
