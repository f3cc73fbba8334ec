"""Holds large results of calls as raw JSON, and decodes JSON only within limits."""

from collections.abc import Callable, Container
from functools import partial
from typing import Any, TypeVar, cast

import anyio.to_thread
import msgspec

from toolscript.text.json_values import as_object
from toolscript.text.wire_constants import INTERIM_RESULTS, OWN_META

_T = TypeVar("_T")
_THREAD_BYTES = 1024 * 1024
MAX_OBJECT_BYTES = 4 * 1024 * 1024
MAX_VALUES = 50_000
"""Longer JSON, and JSON with more values, is never turned into objects."""
VALUE_BYTES = (b",", b"[", b"{")
"""A value of JSON begins, or follows on, with one of these."""
_PIECE_BYTES = 64 * 1024


class UnreadableError(ValueError):
    """A server's answer cannot be read; the message says why."""


class _Flags(msgspec.Struct, omit_defaults=True):
    isError: bool | None = None  # noqa: N815 - as on the wire
    resultType: msgspec.Raw = msgspec.Raw()  # noqa: N815


class RawResult(dict[str, Any]):
    """A result as the JSON ``text`` that it came as.

    As a dict it has only the fields that the gateway itself reads.
    """

    def __init__(self, text: bytes) -> None:
        flags = msgspec.json.decode(text, type=_Flags)
        super().__init__({} if flags.isError is None else {"isError": flags.isError})
        if kind := bytes(flags.resultType):
            self["resultType"] = msgspec.json.decode(kind) if kind[:1] == b'"' else ""
        self.text = text


def as_foreign(value: dict[str, Any], interim: Container[str] = INTERIM_RESULTS) -> dict[str, Any]:
    """Returns a server's result, tool or other entry without the words that are toolscript's own.

    Args:
        value: The result or entry; itself is returned if it has none of these words.
        interim: The types of results after which the call goes on; another type means nothing.
    """
    if isinstance(value, RawResult):
        fields = msgspec.json.decode(value.text, type=dict[str, msgspec.Raw])
        read = {"resultType": value["resultType"]} if "resultType" in value else {}
        if "_meta" in fields:
            read["_meta"] = decode_moderate(bytes(fields["_meta"]))
        kept = as_foreign(read, interim)
        rest = {key: raw for key, raw in fields.items() if key not in read}
        return value if kept is read else RawResult(msgspec.json.encode({**rest, **kept}))
    kind, meta = value.get("resultType", "complete"), as_object(value.get("_meta"))
    if not isinstance(kind, str) or (kind != "complete" and kind not in interim):
        value = {key: each for key, each in value.items() if key != "resultType"}
    if any(key.startswith(OWN_META) for key in meta):
        kept = {key: each for key, each in meta.items() if not key.startswith(OWN_META)}
        value = {**value, "_meta": kept}
    return value


class ValueCount:
    """Counts the values of JSON that comes in pieces, and nothing within its texts."""

    def __init__(self) -> None:
        self._number = 0
        self._is_in_text = False
        self._rest = b""

    def add(self, piece: bytes) -> int:
        """Returns the number of values so far."""
        plain = (self._rest + piece).replace(rb"\\", b"").replace(rb"\"", b"")
        self._rest = b"\\" if plain.endswith(b"\\") else b""
        parts = plain.split(b'"')
        outside = b"".join(parts[self._is_in_text :: 2])
        self._is_in_text ^= len(parts) % 2 == 0
        self._number += sum(map(outside.count, VALUE_BYTES))
        return self._number


def is_moderate(text: bytes) -> bool:
    """Whether JSON is small enough to be turned into objects."""
    if len(text) > MAX_OBJECT_BYTES:
        return False
    if sum(map(text.count, VALUE_BYTES)) < MAX_VALUES:
        return True
    values = ValueCount()
    return all(
        values.add(text[start : start + _PIECE_BYTES]) < MAX_VALUES
        for start in range(0, len(text), _PIECE_BYTES)
    )


def decode_moderate(text: bytes) -> dict[str, Any]:
    """Returns a result as objects; raises `UnreadableError` if it is too large for that."""
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


def decode_task(text: bytes) -> dict[str, Any]:
    """Returns the state of a task, whose result stays JSON."""
    fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    raw = {"result": RawResult(bytes(fields.pop("result")))} if "result" in fields else {}
    return {**decode_moderate(msgspec.json.encode(fields)), **raw}


async def in_thread_if_large(
    work: Callable[[bytes], _T], data: bytes, limiter: anyio.CapacityLimiter | None = None
) -> _T:
    """Does the work, in a thread of the limiter's if the data is large."""
    if len(data) <= _THREAD_BYTES:
        return work(data)
    return await in_thread(partial(work, data), limiter)


async def in_thread(work: Callable[[], _T], limiter: anyio.CapacityLimiter | None = None) -> _T:
    """Does work that may need large data, in a thread of the limiter's."""
    result, error = await anyio.to_thread.run_sync(_try, work, limiter=limiter)
    if error is None:
        return cast("_T", result)
    try:
        raise error
    finally:
        del error, work  # see `_try`


def _try(work: Callable[[], _T]) -> tuple[_T | None, Exception | None]:
    """Returns the result or the error of the work.

    An error that a thread raises refers to itself by way of the frames in its traceback, which
    hold the data: it would be kept until the garbage collector runs.
    """
    try:
        return work(), None
    except Exception as error:  # noqa: BLE001 - raised again by the caller
        error.__context__ = None
        return None, error.with_traceback(None)
