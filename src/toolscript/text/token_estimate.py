"""Estimates how many tokens of a language model a text is."""

BYTES_PER_TOKEN = 4
"""Definitions of tools have between 3.5 and 4.5, depending on the model."""


def estimated_tokens(text: bytes) -> int:
    """Returns the estimate for a text in UTF-8, rounded up."""
    return -(-len(text) // BYTES_PER_TOKEN)
