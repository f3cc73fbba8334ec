"""Holds large results of calls as raw JSON, and decodes JSON only within limits."""

import re
from itertools import islice
from typing import Any

import msgspec

MAX_OBJECT_BYTES = 4 * 1024 * 1024
MAX_VALUES = 50_000
"""Longer JSON, and JSON with more values, is never turned into objects."""
_VALUE = re.compile(rb'"[^"]*+"|[^\s",:\[\]{}]++|[\[{]')


class UnreadableError(ValueError):
    """A server's answer cannot be read; the message says why."""


class _Flags(msgspec.Struct, omit_defaults=True):
    isError: bool | None = None  # noqa: N815 - as on the wire
    resultType: str | None = None  # noqa: N815


class RawResult(dict[str, Any]):
    """A result as the JSON ``text`` that it came as.

    As a dict it has only the fields that the gateway itself reads.
    """

    def __init__(self, text: bytes) -> None:
        super().__init__(msgspec.to_builtins(msgspec.json.decode(text, type=_Flags)))
        self.text = text


def is_moderate(text: bytes) -> bool:
    """Whether JSON is small enough to be turned into objects."""
    if len(text) > MAX_OBJECT_BYTES:
        return False
    if sum(map(text.count, (b",", b"[", b"{"))) < MAX_VALUES:
        return True
    plain = text.replace(rb"\\", b"").replace(rb"\"", b"")
    counted = sum(1 for _ in islice(_VALUE.finditer(plain), MAX_VALUES + 1))
    return counted <= MAX_VALUES


def decode_moderate(text: bytes) -> dict[str, Any]:
    """Returns a result as objects; raises `UnreadableError` where it is too large for that."""
    if not is_moderate(text):
        size = f"{len(text) / 2**20:.1f} MiB"
        raise UnreadableError(
            f"an answer of {size} is too large here: it may have {MAX_VALUES} values and "
            f"{MAX_OBJECT_BYTES // 2**20} MiB; ask for less of it, or call the tool over HTTP"
        )
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableError(f"an answer cannot be read: {error}") from None
