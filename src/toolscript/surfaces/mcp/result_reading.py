"""Reads more of a result that was too long: its lines, those with a text, or a query's value."""

import re
from array import array
from bisect import bisect_right
from typing import Any

import msgspec

from toolscript.errors import ArgumentsError
from toolscript.surfaces.mcp.result_blocks import read_block
from toolscript.text.display import counted, printable
from toolscript.text.json_rows import rows
from toolscript.text.token_estimate import BYTES_PER_TOKEN, MAX_IMAGE_TOKENS

NOTE_CHARS = 400
"""Room beside a part of a result for the words about it."""
_MAX_LINE = 2000
"""A line of more characters, its end included, is counted as several."""
_MAX_SHOWN = 300
"""The length of each line that ``grep`` shows."""
_MAX_FOUND = 1000
"""Number of lines with a text after which ``grep`` stops."""
_WINDOW = 1_000_000
"""Characters that are made lower case at a time: no other thread runs meanwhile."""
_LINES = re.compile(r"(\d{1,9})\s*(?:(-)\s*(\d{1,9})?)?")


class StoredResult(msgspec.Struct, frozen=True):
    """A result that was too long, as it is kept."""

    text: str
    is_json: bool
    limit: int
    """How many characters of it a model gets at once."""
    parts: dict[str, bytes]
    """As JSON, by their names: its blocks that are more than a text, and further fields."""

    @property
    def room(self) -> int:
        """How many characters of it a model gets at once, beside the words about them."""
        return self.limit - NOTE_CHARS

    def value_of(self, query: str) -> bytes:
        """Returns as JSON the part of a name, or the value that a JMESPath query finds.

        Raises `ArgumentsError`.
        """
        from toolscript.surfaces.mcp.result_query import query_json  # noqa: PLC0415 - loads slowly

        if query in self.parts:
            return self.parts[query]
        value = self.text.encode() if self.is_json else self.parts.get("structuredContent")
        if value is None:
            raise ArgumentsError("query is for JSON, and this result is a text; use lines or grep")
        return msgspec.json.encode(query_json(value, query))


def read_value(content: bytes, query: str) -> str:
    """Returns a kept result, or the value of a query, as JSON. Raises `ArgumentsError`."""
    kept = msgspec.msgpack.decode(content, type=StoredResult)
    if query:
        return kept.value_of(query).decode()
    return kept.text if kept.is_json else msgspec.json.encode(kept.text).decode()


def read_more(
    content: bytes, *, lines: str | None = None, grep: str | None = None, query: str | None = None
) -> dict[str, Any]:
    """Returns a part of a result that was kept; its beginning if nothing is asked for.

    Args:
        content: A `StoredResult`, encoded.
        lines: Numbers of lines, such as ``61-120``, ``61-`` or ``61``.
        grep: A text, in upper or lower case, whose lines are returned.
        query: A query in JMESPath, or the name of a block or field that was left out.

    Raises:
        ArgumentsError: More than one of them is given, or it cannot be read or finds nothing.
    """
    if sum(each is not None for each in (lines, grep, query)) > 1:
        raise ArgumentsError("lines, grep and query are given together; send one of them")
    kept = msgspec.msgpack.decode(content, type=StoredResult)
    if query is not None:
        return {"content": [_read_query(kept, query)]}
    text = _read_matches(kept, grep) if grep else _read_lines(kept, lines or "1-")
    return {"content": [_text(text)]}


def _read_query(kept: StoredResult, query: str) -> dict[str, Any]:
    value = kept.value_of(query)
    if query in kept.parts and query.startswith("content["):
        block = read_block(msgspec.Raw(value))
        if block.cost <= MAX_IMAGE_TOKENS * BYTES_PER_TOKEN:
            return msgspec.json.decode(value)
        if block.text is None:
            raise ArgumentsError(
                f"query: {query} is {block.note}, which no model can be shown; call the tool for "
                "less"
            )
    text = rows(value) or value.decode()
    if len(text) > kept.room:
        more = f"(cut after {kept.room:,} characters; ask for less, such as [0:20])"
        text = f"{text[: kept.room]}\n{more}"
    return _text(text)


def _read_matches(kept: StoredResult, grep: str) -> str:
    numbered, text, part = Lines(kept.text), _fold(kept.text), _fold(grep)
    shown, found, room, end = list[str](), 0, kept.room, 0
    while found < _MAX_FOUND and (place := text.find(part, end)) >= 0:
        found += 1
        number = numbered.number(place)
        start, end = numbered.place(number)
        start = max(start, place - _MAX_SHOWN // 2)
        line = f"{number}: " + kept.text[start : start + _MAX_SHOWN].partition("\n")[0]
        if len(line) <= room:
            shown.append(line)
            room -= len(line) + 1
    more = " or more" if found == _MAX_FOUND else ""
    total = f"{counted(found, 'line')}{more} of {len(numbered)} with {printable(grep, 60)!r}"
    return "\n".join([total if len(shown) == found else f"{total}, {len(shown)} shown", *shown])


def _fold(text: str) -> str:
    """Returns a text in lower case, at the same places; other threads run now and then."""
    pieces = (text[start : start + _WINDOW] for start in range(0, len(text), _WINDOW))
    return "".join(piece.replace("\u0130", "i").lower() for piece in pieces)


def _read_lines(kept: StoredResult, lines: str) -> str:
    found, numbered = _LINES.fullmatch(lines.strip()), Lines(kept.text)
    first = int(found[1]) if found else 0
    if found is None or not 1 <= first <= len(numbered):
        raise ArgumentsError(
            f"lines is {printable(lines, 40)!r}; send numbers from 1 to {len(numbered)}, such as "
            "'61-120'"
        )
    last = int(found[3] or len(numbered)) if found[2] else first
    label, text = numbered.at(first, max(first, min(last, len(numbered))), kept.room)
    return f"{label}:\n{text}"


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


class Lines:
    """The lines of a text by their numbers; a long one counts as several."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = _starts(text)

    def __len__(self) -> int:
        return len(self._starts)

    def number(self, place: int) -> int:
        """Returns the number of the line in which a place is."""
        return bisect_right(self._starts, place)

    def place(self, number: int) -> tuple[int, int]:
        """Returns the beginning and the end of a line."""
        end = self._starts[number] if number < len(self) else len(self._text)
        return self._starts[number - 1], end

    def at(self, first: int, last: int, limit: int) -> tuple[str, str]:
        """Returns a label, and lines from the first to the last or as many as the limit allows."""
        (start, _), (_, end) = self.place(first), self.place(last)
        if end - start > limit:
            last = max(first, self.number(start + limit) - 1)
            end = min(self.place(last)[1], start + limit)
        return f"lines {first} to {last} of {len(self)}", self._text[start:end]


def _starts(text: str) -> "array[int]":
    """Returns the beginnings of a text's lines. No step in Python is for one line."""
    import numpy as np  # noqa: PLC0415 - loads slowly

    places = [np.zeros(1, np.uint32)]
    for start in range(0, len(text), _WINDOW):
        piece = text[start : start + _WINDOW].encode("utf-32-le", "surrogatepass")
        after = np.flatnonzero(np.frombuffer(piece, "<u4") == ord("\n")) + start + 1
        places.append(after[after < len(text)].astype(np.uint32))
    starts = np.concatenate(places)
    lengths = np.diff(starts, append=np.uint32(len(text)))
    for long in np.flatnonzero(lengths > _MAX_LINE):
        first, size = int(starts[long]), int(lengths[long])
        places.append(np.arange(first + _MAX_LINE, first + size, _MAX_LINE, dtype=np.uint32))
    return array("I", np.sort(np.concatenate(places), kind="stable").tobytes())
