"""What a step costs and whose part is whose, by model."""
