"""Meters: times every engine step and splits it among the requests in it."""
