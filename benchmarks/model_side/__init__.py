"""Measures the tokens that a model reads, and how often it is shown the right tool at once."""
