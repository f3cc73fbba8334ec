"""Blanks the stored secrets of one server in all that it says."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from anyio import CapacityLimiter, to_thread

from toolscript.gateway.raw_results import RawResult
from toolscript.gateway.upstream.other_lists import Lists
from toolscript.text.redaction import redact_known
from toolscript.types import ToolSpec

_BATCH_BYTES = 1024 * 1024
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


class SecretBlanking:
    """Puts ``***`` in the place of each stored secret that a server repeats.

    Args:
        secrets: Returns the texts of the server's stored secrets.
    """

    def __init__(self, secrets: Callable[[], tuple[str, ...]]) -> None:
        self._secrets = secrets
        self._limiter = CapacityLimiter(1)

    async def blank_result(self, result: dict[str, Any]) -> dict[str, Any]:
        """Returns a result without secrets, after work in a thread; itself if there are none.

        A result that asks for input stays as it is: its state is not for reading.
        """
        if not self._secrets() or result.get("resultType") == "input_required":
            return result
        return await to_thread.run_sync(self._blank, result, limiter=self._limiter)

    def blank_definition(self, tool: ToolSpec) -> ToolSpec:
        """Returns a tool without secrets in all that describes it; its name stays."""
        if not self._secrets():
            return tool
        text = blank_json(msgspec.json.encode(tool), self._secrets())
        blanked = msgspec.json.decode(text, type=ToolSpec)
        return msgspec.structs.replace(blanked, server=tool.server, name=tool.name)

    def blank_lists(self, lists: Lists) -> Lists:
        """Returns a server's lists without secrets."""
        if not self._secrets():
            return lists
        return {method: tuple(entries) for method, entries in self._blank(lists).items()}

    def _blank(self, value: dict[str, Any]) -> dict[str, Any]:
        if isinstance(value, RawResult):
            return RawResult(blank_json(value.text, self._secrets()))
        inner = value.get("result")
        if isinstance(inner, RawResult):  # of a task
            return {**self._blank({**value, "result": None}), "result": self._blank(inner)}
        return msgspec.json.decode(blank_json(msgspec.json.encode(value), self._secrets()))


def blank_json(text: bytes, secrets: tuple[str, ...]) -> bytes:
    """Returns JSON with ``***`` for the secrets in its texts and names; other bytes stay.

    Needs memory for the JSON, its copy and a batch, however many values there are.
    """
    made, done = bytearray(), 0
    for places in _batches(text):
        read = [_decode(text[start:end]) for start, end in places]
        for (start, end), before, after in zip(
            places, read, redact_known(read, secrets), strict=True
        ):
            if after != before:
                made += text[done:start] + msgspec.json.encode(after)
                done = end
    return bytes(made + text[done:])


def _batches(text: bytes) -> Iterator[list[tuple[int, int]]]:
    """Yields the places of the strings of JSON, quotes included."""
    batch: list[tuple[int, int]] = []
    size = 0
    for string in _STRING.finditer(text):
        batch.append(string.span())
        size += len(string[0]) + _BATCH_BYTES // 10_000  # an empty text takes memory, too
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    yield batch


def _decode(literal: bytes) -> str:
    if b"\\" not in literal:
        return literal[1:-1].decode("utf-8", "replace")
    return msgspec.json.decode(literal, type=str)
