"""The outcome of a call, as a tool's screen shows it: texts, JSON and images."""

import base64
import binascii
import secrets
from collections import OrderedDict
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Struct

from toolscript.errors import UnknownNameError
from toolscript.gateway.raw_results import RawResult, UnreadableError, decode_moderate
from toolscript.surfaces.server.page_sessions import PAGE
from toolscript.text.token_estimate import result_tokens

_MAX_TEXT = 20_000
"""Characters of a result that are shown."""
_MAX_BLOCKS = 20
_IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
_MAX_IMAGE_BYTES = 4 * 1024 * 1024
_MAX_IMAGES = 8


class Block(Struct, frozen=True, kw_only=True):
    """A part of a result: a text, or an image by its address."""

    text: str = ""
    cut: int = 0
    """How many characters of the text are not shown."""
    image: str = ""
    kind: str = "text"


class CallOutcome(Struct, frozen=True, kw_only=True):
    """What came of a call."""

    blocks: list[Block] = []
    is_error: bool = False
    problem: str = ""
    """Why there is no result."""
    bytes: int = 0
    tokens: int = 0


class Image(NamedTuple):
    """An image of a result, for the caller who made the call."""

    holder: str
    media_type: str
    data: bytes


class _ImageStore:
    """The latest images of results, for those who made the calls: the policy allows no others."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Image] = OrderedDict()

    def add(self, image: Image) -> str:
        """Keeps an image; returns the address that shows it."""
        key = secrets.token_urlsafe(16)
        self._kept[key] = image
        if len(self._kept) > _MAX_IMAGES:
            self._kept.popitem(last=False)
        return f"{PAGE}/images/{key}"

    def get(self, key: str, holder: str) -> Image:
        """Returns an image by its key; raises `UnknownNameError`."""
        image = self._kept.get(key)
        if image is None or image.holder != holder:
            raise UnknownNameError("this image is not kept any more; call the tool again")
        return image


IMAGES = _ImageStore()


def outcome_of_call(result: dict[str, Any], holder: str) -> CallOutcome:
    """Returns what a call has returned; images are kept for ``holder``."""
    if isinstance(result, RawResult):
        size = len(result.text)
        try:
            result = decode_moderate(result.text)
        except UnreadableError as error:
            return CallOutcome(problem=str(error), bytes=size)
    text = msgspec.json.encode(result)
    content: Any = result.get("content")
    parts = cast("list[Any]", content) if isinstance(content, list) else []
    blocks = [_block(each, holder) for each in parts[:_MAX_BLOCKS]]
    structured = result.get("structuredContent")
    if structured is not None and not any(_is_json(block.text) for block in blocks):
        blocks.append(_text(_pretty(structured), "structured"))
    is_error = bool(result.get("isError"))
    return CallOutcome(
        blocks=blocks, is_error=is_error, bytes=len(text), tokens=result_tokens(result)
    )


def _block(block: Any, holder: str) -> Block:
    if not isinstance(block, dict):
        return _text(_pretty(block), "JSON")
    block = cast("dict[str, Any]", block)
    kind, text = str(block.get("type")), block.get("text")
    if kind == "text" and isinstance(text, str):
        return _text(_formatted(text), kind)
    if kind == "image" and block.get("mimeType") in _IMAGES:
        data = _decoded(block.get("data"))
        if data is not None:
            address = IMAGES.add(Image(holder, block["mimeType"], data))
            return Block(kind=kind, image=address)
    return _text(_pretty(block), kind)


def _text(text: str, kind: str) -> Block:
    return Block(text=text[:_MAX_TEXT], cut=max(0, len(text) - _MAX_TEXT), kind=kind)


def _formatted(text: str) -> str:
    """Returns a text, indented where it is JSON."""
    return _pretty(msgspec.json.decode(text)) if _is_json(text) else text


def _is_json(text: str) -> bool:
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _pretty(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value)).decode()


def _decoded(data: Any) -> bytes | None:
    """Returns the bytes of an image; None if they cannot be read, or are too many."""
    if not isinstance(data, str) or len(data) > _MAX_IMAGE_BYTES * 4 // 3:
        return None
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
