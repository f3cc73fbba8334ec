"""The SDK's dispatcher, except that listings and large results bypass the session's checks."""

from collections.abc import Callable, Mapping
from typing import Any

from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus
from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

from toolscript.gateway.jsonrpc_reader import UnparsedResult, in_thread_if_large
from toolscript.gateway.raw_results import RawResult, UnreadableError, decode_moderate


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
    ) -> None:
        super().__init__(read, write)
        self._restore = restore
        self._on_closed = on_closed

    async def run(
        self,
        on_request: Any,
        on_notify: Any,
        on_notify_intercept: Any = None,
        *,
        task_status: TaskStatus[None] = TASK_STATUS_IGNORED,
    ) -> None:
        """See `JSONRPCDispatcher.run`."""
        try:
            await super().run(on_request, on_notify, on_notify_intercept, task_status=task_status)
        finally:
            self._on_closed()

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """See `JSONRPCDispatcher.send_raw_request`."""
        raw: Any = await super().send_raw_request(method, params, opts, **options)
        raw = raw if isinstance(raw, UnparsedResult) else self._restore(raw)
        if method == "tools/list" and not (isinstance(raw, UnparsedResult) and not raw.text):
            raise SessionBypassError(raw)
        if not isinstance(raw, UnparsedResult):
            return raw
        if raw.problem:
            raise UnreadableError(f"sent an answer that cannot be read: {raw.problem}")
        if method == "tools/call":
            result = await in_thread_if_large(RawResult, raw.text)
            if result.get("resultType") != "input_required":
                raise SessionBypassError(result)
        return await in_thread_if_large(decode_moderate, raw.text)
