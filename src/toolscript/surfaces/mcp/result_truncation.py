"""Shortens results that are too long for a model, and says how it reads the rest."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from toolscript.gateway.raw_results import is_moderate
from toolscript.surfaces.mcp.result_blocks import Block, Fields, read_blocks, texts_of
from toolscript.surfaces.mcp.result_reading import Lines, StoredResult
from toolscript.text.display import counted, printable, size_text
from toolscript.text.json_rows import rows
from toolscript.text.json_values import as_object
from toolscript.text.wire_constants import MORE
from toolscript.types import ToolSpec

_Raw: TypeAlias = dict[str, Any]
_PART = 4
"""Of a result that is too long, this part of the limit is shown: a model can ask for the rest."""
_MAX_OTHER = 1000
"""Bytes that the further fields of a result may have together that is too long."""
_LESS = re.compile(
    r"(?i)(?:\w*_)?(?:limit|offset|page|cursor|max\w*|count|per_?page|page_?size|top|head|tail|"
    r"first|last|start\w*|end\w*|fields|columns|filter|query|range|lines?|depth)"
)
"""Names of parameters that often make an answer shorter."""
_MAX_LESS, _MAX_OMITTED = 6, 5
_ROWS = re.compile(r'(?:\A|\A\{|^)(?:"([A-Za-z_]\w*)": )?\[$', re.ASCII | re.MULTILINE)
"""The beginning of rows in JSON that is laid out, and the key that they are at."""


def shorten(
    result: bytes,
    limit: int,
    keep: Callable[[bytes], str],
    tool: ToolSpec,
    *,
    is_typed: bool = False,
) -> _Raw:
    """Returns a result as a model gets it. Blocks for a while if the result is large.

    Structured content that the texts repeat is left out.

    Args:
        result: The result as JSON.
        limit: The most characters that the model gets.
        keep: Keeps a result that is too long; returns its handle, or "" if it cannot be kept.
        tool: The tool, some of whose parameters may make its answers shorter.
        is_typed: Whether the client knows the tool's output schema. It gets all of the structured
            content, which the protocol demands, and the texts are shortened alone.
    """
    fields = msgspec.json.decode(result, type=Fields)
    blocks = read_blocks(fields.get("content", msgspec.Raw(b"[]")))
    if blocks is None:  # no content that can be read: the whole is the text
        if len(result) <= limit:
            return msgspec.json.decode(result)
        blocks, fields = [], {"structuredContent": msgspec.Raw(result)}
    structured = bytes(fields.get("structuredContent", b""))
    is_typed = is_typed and is_moderate(structured)
    if structured and not is_typed and _repeat(texts_of(blocks), structured):
        del fields["structuredContent"]
        structured = b""
    unlimited = {"content", "structuredContent"} if is_typed else {"content"}
    if is_moderate(structured) and _length(blocks, fields, unlimited) <= limit:
        return _objects(fields)
    others, large = _other_fields(fields, is_typed=is_typed)
    kept = _document(blocks, b"" if is_typed else structured, limit, large)
    handle = keep(msgspec.msgpack.encode(kept))
    return {"content": _beginning(kept, handle, tool, blocks, large), **others}


# What the texts repeat


def _repeat(texts: list[str], structured: bytes) -> bool:
    """Whether texts say what the structured content does, or what its only field does."""
    parts = [_comparable(structured)]
    if structured[:1] == b"{":
        fields = msgspec.json.decode(structured, type=Fields)
        if len(fields) == 1:
            parts += [_comparable(bytes(value)) for value in fields.values()]
    values = [_comparable(text.encode()) for text in texts]
    together: list[Any] = [values[0] if len(values) == 1 else values, "".join(texts)]
    if all(isinstance(value, bytes) for value in values):
        together.append(b"[" + b",".join(values) + b"]")
    return any(one == other for one in parts for other in together)


def _comparable(text: bytes) -> Any:
    """Returns JSON as objects; as compact JSON if it is too large for that; other text as it is."""
    try:
        if is_moderate(text) or text[:1] == b'"':
            return msgspec.json.decode(text)
        return msgspec.json.format(text, indent=-1)
    except (msgspec.MsgspecError, RecursionError):
        return text.decode("utf-8", "replace")


# What is kept


def _length(blocks: Sequence[Block], fields: Fields, unlimited: Collection[str]) -> int:
    """Returns the characters of a result that count for the limit."""
    others = (len(bytes(value)) for key, value in fields.items() if key not in unlimited)
    return sum(block.cost for block in blocks) + sum(others)


def _other_fields(fields: Fields, *, is_typed: bool) -> tuple[_Raw, dict[str, bytes]]:
    """Returns the fields beside the content that a shortened result keeps, and the others."""
    kept, large, room = Fields(), dict[str, bytes](), _MAX_OTHER
    for key, value in fields.items():
        if key == "structuredContent" and is_typed:
            kept[key] = value
        elif key not in {"content", "structuredContent"}:
            size = len(key) + len(bytes(value))
            if size <= room:
                kept[key], room = value, room - size
            else:
                large[key] = bytes(value)
    return _objects(kept), large


def _objects(fields: Fields) -> _Raw:
    return {key: msgspec.json.decode(value) for key, value in fields.items()}


def _document(
    blocks: Sequence[Block], structured: bytes, limit: int, large: dict[str, bytes]
) -> StoredResult:
    """Returns the text of a result, with a line for each row if it is JSON, and its other parts."""
    texts = texts_of(blocks)
    said = "\n".join(texts)
    laid = rows(structured or (said.encode() if len(texts) == 1 else b""))
    is_json = laid is not None and not (structured and said)
    if laid is None:
        laid = said + structured.decode("utf-8", "replace")
    elif not is_json:
        laid = f"{said}\n{laid}"
    parts = {
        f"content[{place}]": bytes(block.raw)
        for place, block in enumerate(blocks)
        if not block.is_plain
    }
    if structured and not is_json:
        parts["structuredContent"] = structured
    return StoredResult(laid, is_json=is_json, limit=limit, parts=parts | large)


# What is shown


def _beginning(
    kept: StoredResult,
    handle: str,
    tool: ToolSpec,
    blocks: Sequence[Block],
    large: Mapping[str, bytes],
) -> list[_Raw]:
    """Returns the content of a shortened result: an excerpt, and the images that fit beside it."""
    left = {key: size_text(len(value)) for key, value in large.items()}
    shown, omitted = _choose(blocks, kept.limit - kept.limit // _PART)
    text = _excerpt(kept, handle, tool, omitted | left)
    if len(text) + sum(block.cost for block in shown) > kept.limit:
        shown, omitted = _choose(blocks, 0)
        text = _excerpt(kept, handle, tool, omitted | left)
    return [{"type": "text", "text": text}, *(msgspec.json.decode(block.raw) for block in shown)]


def _choose(blocks: Sequence[Block], room: int) -> tuple[list[Block], dict[str, str]]:
    """Returns the blocks without text that there is room for, and notes of others by name."""
    shown, omitted = list[Block](), dict[str, str]()
    for place, block in enumerate(blocks):
        if block.text is None and block.cost <= room:
            room -= block.cost
            shown.append(block)
        elif block.text is None:
            omitted[f"content[{place}]"] = block.note
    return shown, omitted


def _excerpt(kept: StoredResult, handle: str, tool: ToolSpec, omitted: Mapping[str, str]) -> str:
    """Returns the beginning of a result, after what it is and how more of it is had.

    Args:
        kept: The result.
        handle: Its handle, or "" if it cannot be read on.
        tool: The tool.
        omitted: Notes of the blocks and fields that are left out, by their names.
    """
    lines = Lines(kept.text)
    label, head = lines.at(1, len(lines), kept.limit // _PART)
    size = f"{len(kept.text):,} characters in {counted(len(lines), 'line')}"
    notes = [f"This result is too long to be shown whole: {size}."] if kept.text else []
    shown = list(omitted.items())[:_MAX_OMITTED]
    more = len(omitted) - len(shown)
    notes += [f"Left out: {printable(name, 60)}, {note}" for name, note in shown]
    notes += [f"Left out: {more} more"] if more else []
    if handle:
        ways = ["lines (such as '61-120')", "grep"] if kept.text else []
        found = _ROWS.search(head) if kept.is_json else None
        examples = [f"{found[1] or ''}[0:20]"] if found else [*omitted]
        ways += [f"query (such as '{each}')" for each in examples[:1]]
        how = f"{MORE} with handle '{handle}' and {' or '.join(ways)}"
        notes.append(f"For more, within an hour: {how}.")
    less = _limiting_parameters(tool)
    notes += [f"Or call {tool.id} for less: it takes {', '.join(less)}."] if less else []
    if kept.text:
        notes += [f"It begins ({label}):", head.removesuffix("\n")]
    return "\n".join(notes)


def _limiting_parameters(tool: ToolSpec) -> list[str]:
    """Returns the parameters of a tool that may make its answers shorter."""
    names = as_object((tool.input_schema or {}).get("properties"))
    return [printable(name, 40) for name in names if _LESS.fullmatch(name)][:_MAX_LESS]
