"""Repairs results that break the protocol, so that no call that was made loses its result."""

import logging
from typing import Any, cast

import msgspec
from mcp_types import ContentBlock
from pydantic import TypeAdapter, ValidationError

from toolscript.gateway.raw_results import RawResult
from toolscript.text.display import printable
from toolscript.text.wire_constants import INTERIM_RESULTS

log = logging.getLogger(__name__)
_BLOCK: TypeAdapter[Any] = TypeAdapter(ContentBlock)


class _Large(msgspec.Struct):
    content: msgspec.Raw = msgspec.Raw()


class ResultRepair:
    """Repairs the results of one server, and says so once in the log."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._has_warned = False

    def __call__(self, result: dict[str, Any]) -> dict[str, Any]:
        """Returns a result with blocks as its content; itself if there is nothing to repair."""
        if result.get("resultType") in INTERIM_RESULTS:
            return result
        repaired = _repair_raw(result) if isinstance(result, RawResult) else _repair(result)
        if repaired is not result:
            self._warn()
        return repaired

    def _warn(self) -> None:
        if not self._has_warned:
            name = printable(self._server, 100)
            log.warning("%s: a result breaks the protocol; what can be read of it is shown", name)
        self._has_warned = True


def _repair_raw(result: RawResult) -> RawResult:
    if bytes(msgspec.json.decode(result.text, type=_Large).content):
        return result
    return RawResult(b'{"content":[],' + result.text.lstrip()[1:])


def _repair(result: dict[str, Any]) -> dict[str, Any]:
    content, structured = result.get("content"), result.get("structuredContent")
    given = cast("list[Any]", content) if isinstance(content, list) else [content]
    blocks = [_block(block) for block in given if block is not None]
    is_object = structured is None or isinstance(structured, dict) or "resultType" in result
    if blocks == content and is_object:
        return result
    if structured is not None and not (blocks and is_object):
        blocks.append(_text(structured))
    repaired = {**result, "content": blocks or [_text("(the server sent an empty result)")]}
    if not is_object:
        del repaired["structuredContent"]
    return repaired


def _block(block: Any) -> Any:
    """Returns the block, or its JSON as a text if the protocol knows none like it."""
    try:
        _BLOCK.validate_python(block, by_name=False)
    except ValidationError:
        return _text(block)
    return block


def _text(value: Any) -> dict[str, Any]:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return {"type": "text", "text": text}
