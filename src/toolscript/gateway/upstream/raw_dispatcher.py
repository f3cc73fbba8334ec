"""The SDK's dispatcher, except that listings and large results bypass the session's checks.

It repairs results that break the protocol, so that no call that was made loses its result.
"""

import logging
from collections.abc import Callable
from typing import Any, cast

import msgspec
from mcp.client.session import ClientSession
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import ContentBlock, Request
from pydantic import TypeAdapter, ValidationError

from toolscript.gateway.jsonrpc_reader import UnparsedResult
from toolscript.gateway.raw_results import (
    RawResult,
    UnreadableError,
    as_foreign,
    decode_moderate,
    decode_task,
    in_thread_if_large,
)
from toolscript.text.display import printable
from toolscript.text.wire_constants import INTERIM_RESULTS, TASK

log = logging.getLogger(__name__)
_ANY = TypeAdapter[Any](Any)
_BLOCK: TypeAdapter[Any] = TypeAdapter(ContentBlock)
_OPENING = frozenset({"initialize", "server/discover"})
"""The methods whose answers say, to the session alone, which program the server is."""


class _BypassError(Exception):
    """Carries a result past the session, which would check it as a whole; see `send_raw`."""

    def __init__(self, result: Any) -> None:
        super().__init__("a result that the session does not check")
        self.result = result


async def send_raw(
    session: ClientSession, request: Request[Any, Any], on_progress: ProgressFnT | None = None
) -> Any:
    """Sends a request, and returns its result as the server gave it, repaired."""
    try:
        return await session.send_request(request, _ANY, progress_callback=on_progress)
    except _BypassError as bypass:
        return bypass.result


class RawDispatcher(JSONRPCDispatcher[Any]):
    """Sends requests, and reports when the connection has ended.

    A listing is checked tool by tool elsewhere, since one malformed tool would cost all
    the others in the session. A large result of a call stays JSON. `send_raw` returns both.
    """

    def __init__(
        self,
        read: Any,
        write: Any,
        on_closed: Callable[[], None],
        restore: Callable[[dict[str, Any]], Any],
        repair: "ResultRepair",
    ) -> None:
        super().__init__(read, write)
        self._restore, self._repair = restore, repair
        self._on_closed = on_closed

    async def run(self, *handlers: Any, **options: Any) -> None:
        """See `JSONRPCDispatcher.run`."""
        try:
            await super().run(*handlers, **options)
        finally:
            self._on_closed()

    async def send_raw_request(self, method: str, *rest: Any, **options: Any) -> dict[str, Any]:
        """See `JSONRPCDispatcher.send_raw_request`."""
        raw: Any = await super().send_raw_request(method, *rest, **options)
        raw = raw if isinstance(raw, UnparsedResult) else self._restore(raw)
        if isinstance(raw, UnparsedResult):
            return await self._decode(method, raw)
        if method == "tools/list":
            raise _BypassError(raw)
        raw = raw if method in _OPENING else as_foreign(raw)
        if method != "tools/call":
            return self._repair_task(raw) if method == "tasks/get" else raw
        if raw.get("resultType") == TASK:
            raise _BypassError(raw)
        return self._repair(raw)

    def _repair_task(self, task: dict[str, Any]) -> dict[str, Any]:
        """Returns the state of a task with its result repaired."""
        if "result" not in task:
            return task
        result: object = task["result"]
        known = cast("dict[str, Any]", result) if isinstance(result, dict) else {"content": result}
        return {**task, "result": self._repair(as_foreign(known, ()))}

    async def _decode(self, method: str, raw: UnparsedResult) -> dict[str, Any]:
        if method == "tools/list" and raw.text:
            raise _BypassError(raw)
        if raw.problem:
            raise UnreadableError(f"sent an answer that cannot be read: {raw.problem}")
        if method == "tools/call":
            result = await in_thread_if_large(self._read_call, raw.text)
            if result.get("resultType") != "input_required":
                raise _BypassError(result)
        if method == "tasks/get":
            task = await in_thread_if_large(decode_task, raw.text)
            raise _BypassError(self._repair_task(task))
        return as_foreign(await in_thread_if_large(decode_moderate, raw.text))

    def _read_call(self, text: bytes) -> dict[str, Any]:
        return self._repair(as_foreign(RawResult(text)))


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
