"""The SDK's dispatcher, except that listings and large results bypass the session's checks."""

from collections.abc import Callable
from typing import Any, cast

from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

from toolscript.gateway.jsonrpc_reader import UnparsedResult
from toolscript.gateway.raw_results import (
    RawResult,
    UnreadableError,
    as_foreign,
    decode_moderate,
    decode_task,
    in_thread_if_large,
)
from toolscript.text.wire_constants import TASK

_OPENING = frozenset({"initialize", "server/discover"})
"""The methods whose answers say, to the session alone, which program the server is."""


class SessionBypassError(Exception):
    """Carries a result past the session, which would check it as a whole. Not a failure."""

    def __init__(self, result: Any) -> None:
        super().__init__("a result that the session does not check")
        self.result = result


class RawDispatcher(JSONRPCDispatcher[Any]):
    """Sends requests, and reports when the connection has ended.

    A listing is checked tool by tool elsewhere, since one malformed tool would cost all
    the others in the session. A large result of a call stays JSON. Both are raised as
    `SessionBypassError`.
    """

    def __init__(
        self,
        read: Any,
        write: Any,
        on_closed: Callable[[], None],
        restore: Callable[[dict[str, Any]], Any],
        repair: Callable[[dict[str, Any]], dict[str, Any]],
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
            raise SessionBypassError(raw)
        raw = raw if method in _OPENING else as_foreign(raw)
        if method != "tools/call":
            return self._repair_task(raw) if method == "tasks/get" else raw
        if raw.get("resultType") == TASK:
            raise SessionBypassError(raw)
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
            raise SessionBypassError(raw)
        if raw.problem:
            raise UnreadableError(f"sent an answer that cannot be read: {raw.problem}")
        if method == "tools/call":
            result = await in_thread_if_large(self._read_call, raw.text)
            if result.get("resultType") != "input_required":
                raise SessionBypassError(result)
        if method == "tasks/get":
            task = await in_thread_if_large(decode_task, raw.text)
            raise SessionBypassError(self._repair_task(task))
        return as_foreign(await in_thread_if_large(decode_moderate, raw.text))

    def _read_call(self, text: bytes) -> dict[str, Any]:
        return self._repair(as_foreign(RawResult(text)))
