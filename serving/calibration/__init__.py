"""Fits a step model to an engine."""
