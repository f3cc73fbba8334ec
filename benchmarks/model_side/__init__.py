"""The trial of what a model reads: tokens, and right tools at once."""
