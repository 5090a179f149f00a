"""Prices: turns measured time into money, and can prove each cent."""
