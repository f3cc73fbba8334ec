"""Truncates results that are too long for a model, and reads more of those that are stored."""

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from toolscript.errors import ArgumentsError
from toolscript.gateway.raw_results import is_moderate
from toolscript.text.display import counted, printable
from toolscript.text.image_size import image_size
from toolscript.text.json_outline import rows, select_value, shape
from toolscript.text.json_values import as_object
from toolscript.text.token_estimate import BYTES_PER_TOKEN, MAX_IMAGE_TOKENS, image_tokens
from toolscript.text.wire_constants import MORE
from toolscript.types import ToolSpec

_Raw: TypeAlias = dict[str, Any]
_Fields: TypeAlias = dict[str, msgspec.Raw]
_PART = 4
"""Of a result that is too long, this part of the limit is shown: a model can ask for the rest."""
_MAX_BLOCKS = 100_000
_MAX_OTHER = 1000
"""Bytes that the further fields of a result may have together that is too long."""
_MAX_LINE, _MAX_MATCH = 2000, 300
"""Longer lines are counted as several; the length of each line that ``grep`` shows."""
_WINDOW = 500_000
"""Characters that are searched at a time: no other thread runs meanwhile."""
_MAX_SIDE, _MAX_IMAGE_CHARS = 8000, 5 * 1024 * 1024
"""The vendors of models refuse larger images."""
_LESS = re.compile(
    r"(?i)(?:\w*_)?(?:limit|offset|page|cursor|max\w*|count|per_?page|page_?size|top|head|tail|"
    r"first|last|start\w*|end\w*|fields|columns|filter|query|range|lines?|depth)"
)
"""Names of parameters that often make an answer shorter."""
_MAX_LESS, _MAX_OMITTED, _MAX_NOTE = 6, 5, 400
_ROWS = re.compile(r"\{(?:[^{}]*?, )?([\w$-]+): list of |(list of )")
"""The beginning of a shape that has rows, and the key that they are at."""
RESULTS = "toolscript://results/"
"""The beginning of the addresses of stored results, which their handles end."""
_LINK = "toolscript/result"
"""The member of ``_meta`` with the link to a stored result. A link in the content would cost models
tokens, and some clients refuse such a result whole (openai/codex#33404, kirodotdev/Kiro#7983)."""
_LINES = re.compile(r"(\d{1,9})\s*(?:(-)\s*(\d{1,9})?)?")


class StoredResult(msgspec.Struct, frozen=True):
    """A result that was too long: its text, and its blocks that are no text."""

    text: str
    is_json: bool
    limit: int
    """How many characters of it a model gets at once."""
    blocks: dict[str, bytes]
    """As JSON, by their paths: its blocks, unless one text is all of it, and other fields."""

    @property
    def room(self) -> int:
        """How many characters of it a model gets at once, beside what is said of them."""
        return self.limit - _MAX_NOTE

    def select(self, path: str) -> tuple[list[bytes], bool]:
        """Returns the values at a path as JSON, and whether the path is for one value alone.

        See `select_value`. Raises `ArgumentsError`.
        """
        for key, block in self.blocks.items():
            if path == key or path.startswith((f"{key}.", f"{key}[")):
                return select_value(block.decode(), path.removeprefix(key))
        if not self.is_json:
            raise ArgumentsError(
                "path is for JSON, and this result is a text; read its lines, or pass it on whole"
            )
        return select_value(self.text, path)


class _Block(NamedTuple):
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
    fields = msgspec.json.decode(result, type=_Fields)
    blocks = _blocks(fields.get("content", msgspec.Raw(b"[]")))
    if blocks is None:  # no content that can be read: the whole is the text
        if len(result) <= limit:
            return msgspec.json.decode(result)
        blocks, fields = [], {"structuredContent": msgspec.Raw(result)}
    structured = bytes(fields.get("structuredContent", b""))
    is_typed = is_typed and is_moderate(structured)
    if structured and not is_typed and _repeat(_texts(blocks), structured):
        del fields["structuredContent"]
        structured = b""
    unlimited = {"content", "structuredContent"} if is_typed else {"content"}
    if is_moderate(structured) and _length(blocks, fields, unlimited) <= limit:
        return _objects(fields)
    others, large = _other_fields(fields, is_typed=is_typed)
    kept = _document(blocks, b"" if is_typed else structured, limit, large)
    handle = keep(msgspec.msgpack.encode(kept))
    if handle:
        others["_meta"] = {**others.get("_meta", {}), _LINK: resource_link(handle, kept)}
    return {"content": _beginning(kept, handle, tool, blocks, large), **others}


def _beginning(
    kept: StoredResult,
    handle: str,
    tool: ToolSpec,
    blocks: Sequence[_Block],
    large: Mapping[str, bytes],
) -> list[_Raw]:
    """Returns the content of a shortened result: an excerpt, and the images that fit beside it."""
    left = {key: _bytes(len(value)) for key, value in large.items()}
    shown, omitted = _choose(blocks, kept.limit - kept.limit // _PART)
    text = _excerpt(kept, handle, tool, omitted | left)
    if len(text) + sum(block.cost for block in shown) > kept.limit:
        shown, omitted = _choose(blocks, 0)
        text = _excerpt(kept, handle, tool, omitted | left)
    return [{"type": "text", "text": text}, *(msgspec.json.decode(block.raw) for block in shown)]


def resource_link(handle: str, kept: StoredResult) -> _Raw:
    """Returns the link by which programs find a stored result among the resources."""
    kind = "application/json" if kept.is_json else "text/plain"
    return {"type": "resource_link", "uri": f"{RESULTS}{handle}", "name": handle, "mimeType": kind}


def _length(blocks: Sequence[_Block], fields: _Fields, unlimited: Collection[str]) -> int:
    """Returns the characters of a result that count for the limit."""
    others = (len(bytes(value)) for key, value in fields.items() if key not in unlimited)
    return sum(block.cost for block in blocks) + sum(others)


def _other_fields(fields: _Fields, *, is_typed: bool) -> tuple[_Raw, dict[str, bytes]]:
    """Returns the fields beside the content that a shortened result keeps, and the others."""
    kept, large, room = _Fields(), dict[str, bytes](), _MAX_OTHER
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


def _objects(fields: _Fields) -> _Raw:
    return {key: msgspec.json.decode(value) for key, value in fields.items()}


def _choose(blocks: Sequence[_Block], room: int) -> tuple[list[_Block], dict[str, str]]:
    """Returns the blocks without text that there is room for, and notes of others by path."""
    shown, omitted = list[_Block](), dict[str, str]()
    for place, block in enumerate(blocks):
        if block.text is None and block.cost <= room:
            room -= block.cost
            shown.append(block)
        elif block.text is None:
            omitted[f"content[{place}]"] = block.note
    return shown, omitted


def _blocks(content: msgspec.Raw) -> list[_Block] | None:
    """Returns the blocks of a content; None for one that cannot be read."""
    try:
        if bytes(content).count(b"{") > _MAX_BLOCKS:
            raise msgspec.DecodeError
        return [_block(raw) for raw in msgspec.json.decode(content, type=list[msgspec.Raw])]
    except msgspec.MsgspecError:
        return None


def _block(raw: msgspec.Raw) -> _Block:
    fields = msgspec.json.decode(raw, type=_Fields)
    kind, text = _string(fields, "type"), _string(fields, "text")
    is_plain = fields.keys() == {"type", "text"}
    if kind == "resource":
        resource = msgspec.json.decode(fields.get("resource", msgspec.Raw(b"{}")), type=_Fields)
        text, fields = _string(resource, "text"), resource
    if text is not None:
        return _Block(raw, text, len(text), "", is_plain and kind == "text")
    data, media = _string(fields, "data"), printable(_string(fields, "mimeType") or kind or "", 60)
    if kind != "image" or data is None:
        return _Block(raw, None, len(bytes(raw)), f"{media}, {_bytes(len(bytes(raw)))}")
    size = image_size(data)
    is_refused = len(data) > _MAX_IMAGE_CHARS or (size is not None and max(size) > _MAX_SIDE)
    cost = len(bytes(raw)) * 10**6 if is_refused else image_tokens(size) * BYTES_PER_TOKEN
    pixels = f"{size[0]} × {size[1]} pixels, " if size else ""
    return _Block(raw, None, cost, f"{media}, {pixels}{_bytes(len(data) * 3 // 4)}")


def _string(fields: _Fields, key: str) -> str | None:
    value = bytes(fields.get(key, b""))
    return msgspec.json.decode(value) if value[:1] == b'"' else None


def _bytes(number: int) -> str:
    return f"{number / 2**20:.1f} MiB" if number >= 2**20 else f"{max(1, number // 1024)} KiB"


def _repeat(texts: list[str], structured: bytes) -> bool:
    """Whether texts say what the structured content does, or what its only field does."""
    parts = [_comparable(structured)]
    if structured[:1] == b"{":
        fields = msgspec.json.decode(structured, type=_Fields)
        parts += (
            [_comparable(bytes(value)) for value in fields.values()] if len(fields) == 1 else []
        )
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


def _texts(blocks: Sequence[_Block]) -> list[str]:
    return [block.text for block in blocks if block.text is not None]


def _document(
    blocks: Sequence[_Block], structured: bytes, limit: int, large: dict[str, bytes]
) -> StoredResult:
    """Returns the text of a result, with a line for each row if it is JSON, and its other parts."""
    texts = _texts(blocks)
    said = "\n".join(texts)
    laid = rows(structured or (said.encode() if len(texts) == 1 else b""))
    is_json = laid is not None and not (structured and said)
    if laid is None:
        laid = said + structured.decode("utf-8", "replace")
    elif not is_json:
        laid = f"{said}\n{laid}"
    others = _by_path(blocks, structured) | large
    return StoredResult(laid, is_json=is_json, limit=limit, blocks=others)


def _by_path(blocks: Sequence[_Block], structured: bytes) -> dict[str, bytes]:
    """Returns the parts of a result by their paths; none if one text is all of it."""
    if not structured and len(blocks) == 1 and blocks[0].is_plain:
        return {}
    parts = {f"content[{place}]": bytes(block.raw) for place, block in enumerate(blocks)}
    return parts | ({"structuredContent": structured} if structured and blocks else {})


def _excerpt(
    kept: StoredResult,
    handle: str,
    tool: ToolSpec,
    omitted: Mapping[str, str],
) -> str:
    """Returns the beginning of a result, after what it is and how more of it is had.

    Args:
        kept: The result.
        handle: Its handle, or "" if it cannot be read on.
        tool: The tool.
        omitted: Notes of the blocks and fields that are left out, by their paths.
    """
    lines, form = _Lines(kept.text), shape(kept.text.encode()) if kept.is_json else ""
    size = f"{len(kept.text):,} characters in {counted(len(lines), 'line')}"
    notes = [f"This result is too long to be shown whole: {size}."] if kept.text else []
    notes += [f"Shape: {form}"] if form else []
    shown = list(omitted.items())[:_MAX_OMITTED]
    more = len(omitted) - len(shown)
    notes += [f"Left out: {printable(path, 60)}, {note}" for path, note in shown]
    notes += [f"Left out: {more} more"] if more else []
    if handle:
        ways = " or ".join(_ways(kept, form, omitted))
        notes.append(f"For more, within an hour: {MORE} with handle '{handle}' and {ways}.")
        whole = f'{{"$result": "{handle}"}}'
        part = ', with "path" for a part' if kept.is_json else ""
        notes.append(f"To pass it on unread, send {whole} as an argument{part}.")
    less = _limiting_parameters(tool)
    notes += [f"Or call {tool.id} for less: it takes {', '.join(less)}."] if less else []
    if kept.text:
        head = lines.at(1, len(lines), kept.limit // _PART)
        notes += [f"It begins ({head.label}):", head.text.removesuffix("\n")]
    return "\n".join(notes)


def _ways(kept: StoredResult, form: str, omitted: Mapping[str, str]) -> list[str]:
    """Returns the parameters by which a model reads more of a result, each with an example."""
    rows = _ROWS.match(form)
    paths = [f"{rows[1] or ''}[0:20]"] if rows else []
    by_path = [f"path (such as '{path}')" for path in [*paths, *omitted][:1]]
    return [*(["lines (such as '61-120')", "grep"] if kept.text else []), *by_path]


def _limiting_parameters(tool: ToolSpec) -> list[str]:
    """Returns the parameters of a tool that may make its answers shorter."""
    names = as_object((tool.input_schema or {}).get("properties"))
    return [printable(name, 40) for name in names if _LESS.fullmatch(name)][:_MAX_LESS]


class _Part(NamedTuple):
    """Some lines of a text."""

    text: str
    label: str
    """Which ones they are, and what to do if there are more."""


class _Lines:
    """The lines of a text by their numbers; a long one counts as several."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = list(_starts(text))

    def __len__(self) -> int:
        return len(self._starts)

    def number(self, place: int) -> int:
        """Returns the number of the line in which a place is."""
        return bisect_right(self._starts, place)

    def at(self, first: int, last: int, limit: int) -> _Part:
        """Returns lines from the first to the last, or as many of them as the limit allows."""
        start = self._starts[first - 1]
        end = self._starts[last] if last < len(self) else len(self._text)
        if end - start > limit:
            last = max(first, self.number(start + limit) - 1)
            end = min(self._starts[last] if last < len(self) else end, start + limit)
        label = f"lines {first} to {last} of {len(self)}"
        return _Part(self._text[start:end], label)


def _starts(text: str) -> Iterator[int]:
    start = 0
    while start < len(text) or not start:
        end = text.find("\n", start) + 1 or len(text)
        yield from range(start, end, _MAX_LINE) if end > start else (0,)
        start = max(end, start + 1)


def read_more(
    content: bytes, *, lines: str | None = None, grep: str | None = None, path: str | None = None
) -> _Raw:
    """Returns a part of a result that was kept; its beginning if nothing is asked for.

    Args:
        content: What `shorten` has kept.
        lines: Numbers of lines, such as ``61-120``, ``61-`` or ``61``.
        grep: A text, in upper or lower case, whose lines are returned.
        path: A path as `select` has it, or that of a block that was left out.

    Raises:
        ArgumentsError: More than one of them is given, or it cannot be read or leads nowhere.
    """
    if sum(each is not None for each in (lines, grep, path)) > 1:
        raise ArgumentsError("lines, grep and path are given together; send one of them")
    kept = msgspec.msgpack.decode(content, type=StoredResult)
    if path is not None and path in kept.blocks and path.startswith("content["):
        return _read_block(kept.blocks[path], path)
    if path is not None:
        text = _read_path(kept, path)
    elif grep:
        text = _read_matches(kept, grep)
    else:
        text = _read_lines(kept, lines or "1-")
    return {"content": [{"type": "text", "text": text}]}


def _read_block(raw: bytes, path: str) -> _Raw:
    block = _block(msgspec.Raw(raw))
    if block.cost > MAX_IMAGE_TOKENS * BYTES_PER_TOKEN:
        raise ArgumentsError(
            f"path: {path} is {block.note}, which no model can be shown; call the tool for less"
        )
    return {"content": [msgspec.json.decode(raw)]}


def _read_path(kept: StoredResult, path: str) -> str:
    values, _ = kept.select(path)
    shown, room = list[str](), kept.room
    for value in values:
        text = value.decode()
        if len(text) > room:
            more = f"cut after {kept.room:,} characters; ask for less, such as [0:20]"
            return "\n".join([*shown, text[:room], f"({more}; shape: {shape(value)[:200]})"])
        shown.append(text)
        room -= len(text) + 1
    return "\n".join(shown)


def _read_matches(kept: StoredResult, grep: str) -> str:
    numbered = _Lines(kept.text)
    seen, shown, room, number = 0, list[str](), kept.room, 0
    for found in _matches(grep, kept.text):
        if number == (number := numbered.number(found.start())):
            continue
        seen += 1
        start = max(0, found.start() - _MAX_MATCH // 2, kept.text.rfind("\n", 0, found.start()) + 1)
        end = kept.text.find("\n", found.start())
        line = kept.text[start : min(end if end >= 0 else len(kept.text), start + _MAX_MATCH)]
        if len(line) < room:
            shown.append(f"{number}: {line}")
            room -= len(shown[-1]) + 1
    total = f"{counted(seen, 'line')} of {len(numbered)} with {printable(grep, 60)!r}"
    return "\n".join([total if len(shown) == seen else f"{total}, {len(shown)} shown", *shown])


def _matches(part: str, text: str) -> Iterator[re.Match[str]]:
    """Yields the places of a part, in upper or lower case; other threads run now and then."""
    pattern, start = re.compile(re.escape(part), re.IGNORECASE), 0
    while start < len(text):
        match = pattern.search(text, start, start + _WINDOW + len(part))
        if match is not None:
            yield match
        start = match.end() if match else start + _WINDOW


def _read_lines(kept: StoredResult, lines: str) -> str:
    found, numbered = _LINES.fullmatch(lines.strip()), _Lines(kept.text)
    first = int(found[1]) if found else 0
    if found is None or not 1 <= first <= len(numbered):
        raise ArgumentsError(
            f"lines is {printable(lines, 40)!r}; send numbers from 1 to {len(numbered)}, such as "
            "'61-120'"
        )
    last = int(found[3] or len(numbered)) if found[2] else first
    part = numbered.at(first, max(first, min(last, len(numbered))), kept.room)
    return f"{part.label}:\n{part.text}"
