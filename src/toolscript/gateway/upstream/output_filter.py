"""Cleans the texts of one server's results, as its entry's ``output`` says."""

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, cast

import msgspec
from anyio import CapacityLimiter, to_thread

from toolscript.errors import RefusedError
from toolscript.gateway.raw_results import RawResult
from toolscript.gateway.upstream.other_lists import Lists
from toolscript.text.hidden_characters import strip_hidden
from toolscript.text.redaction import redact_known
from toolscript.types import OutputStep, ToolSpec

METHODS = ("tools/call", "prompts/get", "resources/read")
"""The requests whose results are content."""
TEXT_KEYS = ("text", "title", "name", "description")
"""The members of content that are for reading; ``data``, ``blob`` and addresses are not."""
STRUCTURED = "structuredContent"
"""The member of a result in which every text and every name is for reading."""
_BATCH_BYTES = 1024 * 1024
_TOKEN = re.compile(rb'"((?:[^"\\]++|\\.)*+)"(\s*+:)?|[\[{]++|[\]}]++', re.DOTALL)
"""A string of JSON, with a colon if it is a name; a row of opening or of closing brackets."""

_Json: TypeAlias = dict[Any, Any] | list[Any]


class OutputFilter:
    """Cleans the answers of one server.

    Args:
        steps: The steps that the server's entry names.
        secrets: Returns the texts that ``redact`` blanks in content.
        stored: Returns the texts of stored secrets, which are blanked in all that it says.
    """

    def __init__(
        self,
        steps: tuple[OutputStep, ...],
        secrets: Callable[[], tuple[str, ...]],
        stored: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self._steps = steps
        self._secrets = secrets
        self._stored = stored
        self._limiter = CapacityLimiter(1)

    async def result(self, method: str, result: dict[str, Any]) -> dict[str, Any]:
        """Returns a result with its texts cleaned, in a thread; itself if nothing is to do.

        A result that asks for input is left as it is: it holds questions and a state, not texts.
        """
        asks = result.get("resultType") == "input_required"
        if method == "tasks/get" and "result" in result:
            result = {**result, "result": await self.result("tools/call", result["result"])}
        cleans = bool(self._steps) and method in METHODS
        if asks or not (cleans or self._stored()):
            return result
        if cleans:
            result = await to_thread.run_sync(self._clean, result, limiter=self._limiter)
        if self._stored():
            result = await to_thread.run_sync(self._blank, result, limiter=self._limiter)
        return result

    def definition(self, tool: ToolSpec) -> ToolSpec:
        """Returns a tool without stored secrets in all that describes it; its name stays."""
        if not self._stored():
            return tool
        fields = self._blank(msgspec.to_builtins(tool))
        return msgspec.convert({**fields, "server": tool.server, "name": tool.name}, ToolSpec)

    def lists(self, lists: Lists) -> Lists:
        """Returns a server's lists without stored secrets."""
        if not self._stored():
            return lists
        blanked = self._blank({method: [*entries] for method, entries in lists.items()})
        return {method: tuple(entries) for method, entries in blanked.items()}

    def refusal(self, error: RefusedError) -> RefusedError:
        """Returns a server's error without hidden characters; it has no secrets any more."""
        if "strip" not in self._steps:
            return error
        said, data = strip_hidden(error.server_message), [error.data]
        _clean_objects(data, lambda texts: [strip_hidden(text) for text in texts], whole=True)
        return RefusedError(strip_hidden(str(error)), error.code, said, data[0])

    def _clean(self, result: dict[str, Any]) -> dict[str, Any]:
        secrets = self._secrets() if "redact" in self._steps else ()

        def clean(texts: list[str]) -> list[str]:
            # First, so that a secret is not hidden by what stands between its letters.
            plain = [strip_hidden(text) for text in texts] if "strip" in self._steps else texts
            return redact_known(plain, secrets) if secrets else plain

        if isinstance(result, RawResult):
            return RawResult(clean_json(result.text, clean))
        _clean_objects(result, clean)
        return result

    def _blank(self, value: dict[str, Any]) -> dict[str, Any]:
        """Returns a value with the stored secrets blanked in every text and every name."""

        def blank(texts: list[str]) -> list[str]:
            return redact_known(texts, self._stored())

        if isinstance(value, RawResult):
            return RawResult(clean_json(value.text, blank, whole=True))
        _clean_objects(value, blank, whole=True)
        return value


def _clean_objects(
    value: _Json, clean: Callable[[list[str]], list[str]], *, whole: bool = False
) -> None:
    """Cleans the texts of a result in place; all texts if it is ``whole``."""
    holders: list[tuple[_Json, bool]] = [(value, whole)]
    places: list[tuple[Any, Any]] = []
    for holder, every in holders:  # which grows: a server may nest deeper than Python calls
        if every and isinstance(holder, dict):
            _clean_names(holder, clean)
        for key, each in _items(holder):
            inside = every or (holder is value and key == STRUCTURED)
            if isinstance(each, list | dict):
                holders.append((cast("_Json", each), inside))
            elif isinstance(each, str) and (inside or key in TEXT_KEYS):
                places.append((holder, key))
    texts = clean([holder[key] for holder, key in places])
    for (holder, key), text in zip(places, texts, strict=True):
        holder[key] = text


def _clean_names(holder: dict[Any, Any], clean: Callable[[list[str]], list[str]]) -> None:
    names = clean(list(holder))
    if names != list(holder):
        pairs = list(zip(names, holder.values(), strict=True))
        holder.clear()
        holder.update(pairs)


def _items(holder: _Json) -> Iterator[tuple[Any, Any]]:
    return iter(holder.items() if isinstance(holder, dict) else enumerate(holder))


def clean_json(
    text: bytes, clean: Callable[[list[str]], list[str]], *, whole: bool = False
) -> bytes:
    """Returns a result as JSON with its texts cleaned, all if it is ``whole``; other bytes stay.

    Needs memory for the result, its copy and a batch, however many values there are.
    """
    made, done = bytearray(), 0
    for places in _batches(_places(text, whole=whole)):
        read = [_decode(text[start:end]) for start, end in places]
        for (start, end), before, after in zip(places, read, clean(read), strict=True):
            if after != before:
                made += text[done:start] + _encode(after)
                done = end
    return bytes(made + text[done:])


def _batches(places: Iterator[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    batch: list[tuple[int, int]] = []
    size = 0
    for start, end in places:
        batch.append((start, end))
        size += end - start + _BATCH_BYTES // 10_000  # an empty text takes memory, too
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    yield batch


def _places(text: bytes, *, whole: bool) -> Iterator[tuple[int, int]]:
    """Yields the places of the strings, quotes included, that `_clean_objects` would clean."""
    depth, inside, name = 0, whole, ""
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first != 0x22:  # noqa: PLR2004 - a quote
            length = token.end() - token.start()
            depth += length if first in b"[{" else -length
            name = ""
            continue
        place = token.start(), token.end(1) + 1
        if token[2] is None:
            if inside or name in TEXT_KEYS:
                yield place
            name = ""
            continue
        name = _decode(text[slice(*place)])
        if depth == 1:
            inside = whole or name == STRUCTURED
        if inside and (whole or depth > 1):
            yield place


def _decode(literal: bytes) -> str:
    if b"\\" not in literal:
        return literal[1:-1].decode("utf-8", "replace")
    return msgspec.json.decode(literal, type=str)


def _encode(text: str) -> bytes:
    return msgspec.json.encode(text)
