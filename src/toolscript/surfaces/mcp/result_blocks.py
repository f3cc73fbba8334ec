"""Reads the blocks of a result's content: their texts, and how long each is for a model."""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import msgspec

from toolscript.text.display import printable, size_text
from toolscript.text.image_size import image_size
from toolscript.text.token_estimate import BYTES_PER_TOKEN, image_tokens

Fields: TypeAlias = dict[str, msgspec.Raw]
_MAX_BLOCKS = 100_000
_MAX_SIDE, _MAX_IMAGE_CHARS = 8000, 5 * 1024 * 1024
"""The vendors of models refuse larger images."""


class Block(NamedTuple):
    """A block of a result's content."""

    raw: msgspec.Raw
    text: str | None
    """The text of a text, or of a resource that is one."""
    cost: int
    """Its length for a model, in characters; an image is as long as its tokens."""
    note: str
    """What it is, for one that has no text."""
    is_plain: bool = False
    """Whether it is a text and nothing else."""


def read_blocks(content: msgspec.Raw) -> list[Block] | None:
    """Returns the blocks of a content; None for one that cannot be read."""
    try:
        if bytes(content).count(b"{") > _MAX_BLOCKS:
            raise msgspec.DecodeError
        return [read_block(raw) for raw in msgspec.json.decode(content, type=list[msgspec.Raw])]
    except msgspec.MsgspecError:
        return None


def read_block(raw: msgspec.Raw) -> Block:
    """Returns a block; raises `msgspec.MsgspecError` for one that cannot be read."""
    fields = msgspec.json.decode(raw, type=Fields)
    kind, text = _string(fields, "type"), _string(fields, "text")
    is_plain = fields.keys() == {"type", "text"}
    if kind == "resource":
        resource = msgspec.json.decode(fields.get("resource", msgspec.Raw(b"{}")), type=Fields)
        text, fields = _string(resource, "text"), resource
    if text is not None:
        return Block(raw, text, len(text), "", is_plain and kind == "text")
    data, media = _string(fields, "data"), printable(_string(fields, "mimeType") or kind or "", 60)
    if kind != "image" or data is None:
        return Block(raw, None, len(bytes(raw)), f"{media}, {size_text(len(bytes(raw)))}")
    size = image_size(data)
    is_refused = len(data) > _MAX_IMAGE_CHARS or (size is not None and max(size) > _MAX_SIDE)
    cost = len(bytes(raw)) * 10**6 if is_refused else image_tokens(size) * BYTES_PER_TOKEN
    pixels = f"{size[0]} × {size[1]} pixels, " if size else ""
    return Block(raw, None, cost, f"{media}, {pixels}{size_text(len(data) * 3 // 4)}")


def texts_of(blocks: Iterable[Block]) -> list[str]:
    """Returns the texts of those blocks that have one."""
    return [block.text for block in blocks if block.text is not None]


def _string(fields: Fields, key: str) -> str | None:
    value = bytes(fields.get(key, b""))
    return msgspec.json.decode(value) if value[:1] == b'"' else None
