"""Estimates how many tokens of a language model a text, an image or a tool's result is."""

from collections.abc import Mapping
from typing import Any

import msgspec

from toolscript.text.image_size import image_size
from toolscript.text.json_values import as_list, as_object

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


def result_tokens(result: Mapping[str, Any]) -> int:
    """Returns the estimate for the content of a tool's result, or else for its structured content.

    An image has a token for 750 pixels, and at most 1,600, as have other binary contents.
    """
    content = as_list(result.get("content"))
    if not content:
        return estimated_tokens(msgspec.json.encode(result.get("structuredContent")))
    return sum(map(_block_tokens, content))


def _block_tokens(block: Any) -> int:
    fields = as_object(block)
    text, data, resource = fields.get("text"), fields.get("data"), fields.get("resource")
    if isinstance(resource, dict) and "blob" in resource:
        return MAX_IMAGE_TOKENS
    if isinstance(data, str):
        return image_tokens(image_size(data) if fields.get("type") == "image" else None)
    return estimated_tokens(text.encode() if isinstance(text, str) else msgspec.json.encode(block))
