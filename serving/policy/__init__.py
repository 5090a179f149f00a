"""What is decided about requests and adapters. Pure."""
