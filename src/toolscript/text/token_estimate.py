"""Estimates how many tokens of a language model a text or an image is."""

BYTES_PER_TOKEN = 4
"""Definitions of tools have between 3.5 and 4.5, depending on the model."""
_PIXELS_PER_TOKEN = 750
MAX_IMAGE_TOKENS = 1600
"""As Anthropic states them (https://docs.anthropic.com/en/docs/build-with-claude/vision); larger
images are scaled down."""


def estimated_tokens(text: bytes) -> int:
    """Returns the estimate for a text in UTF-8, rounded up."""
    return -(-len(text) // BYTES_PER_TOKEN)


def image_tokens(size: tuple[int, int] | None) -> int:
    """Returns the estimate for an image of a width and a height; the most if they are unknown."""
    if size is None:
        return MAX_IMAGE_TOKENS
    return min(MAX_IMAGE_TOKENS, -(-size[0] * size[1] // _PIXELS_PER_TOKEN))
