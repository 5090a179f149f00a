"""FOCUS: what was invoiced as rows of the FinOps Open Cost and Usage Specification, and the checks such rows must pass."""
