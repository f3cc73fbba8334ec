"""Waits for a call that its server continues as a task.

Tasks are the extension ``io.modelcontextprotocol/tasks`` of MCP (SEP-2663): a server answers a long
call with the id of a task, and is asked for its state until that is final.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import anyio
from mcp.shared.exceptions import MCPError

from toolscript.errors import UpstreamError
from toolscript.text.display import printable
from toolscript.text.json_values import as_object

_Raw: TypeAlias = dict[str, Any]
GET, UPDATE, CANCEL = "tasks/get", "tasks/update", "tasks/cancel"
_POLL_S, _MIN_POLL_S, _MAX_POLL_S = 1.0, 0.05, 30.0
"""Seconds between two questions for a task's state, unless its server names others; the bounds."""
_CANCEL_S = 2.0
_INTERNAL_ERROR = -32603


async def wait_for_task(
    server: str,
    task: Mapping[str, Any],
    send: Callable[[str, _Raw], Awaitable[_Raw]],
    ask: Callable[[dict[str, _Raw]], Awaitable[dict[str, _Raw]]],
    report: Callable[[str], Awaitable[None]],
) -> _Raw:
    """Returns the result of a task once it is final. Cancels the task if it is itself cancelled.

    Args:
        server: The server's name, for errors.
        task: The task's first state.
        send: Sends the server a request of a method with these parameters.
        ask: Returns the user's answers to the server's questions, by their keys.
        report: Takes the server's message about the task whenever it changes.

    Raises:
        MCPError: The task failed.
        UpstreamError: The server has cancelled the task, or its state cannot be read.
    """
    named = {"taskId": str(task.get("taskId"))}
    answered = set[str]()
    said = ""
    try:
        while task.get("status") in {"working", "input_required"}:
            if (message := str(task.get("statusMessage") or "")) != said:
                said = message
                await report(said)
            open_questions: dict[str, _Raw] = task.get("inputRequests") or {}
            questions = {key: each for key, each in open_questions.items() if key not in answered}
            if questions:
                answered.update(questions)
                await send(UPDATE, {**named, "inputResponses": await ask(questions)})
            else:
                await anyio.sleep(_interval_s(task))
            task = await send(GET, named)
    except anyio.get_cancelled_exc_class():
        with anyio.move_on_after(_CANCEL_S, shield=True):
            await send(CANCEL, named)
        raise
    return _read_end(server, task)


def _read_end(server: str, task: Mapping[str, Any]) -> _Raw:
    """Returns the result of a task that has ended; raises its error if it has none."""
    status = task.get("status")
    if status == "completed":
        return as_object(task.get("result"))
    if status == "failed":
        error = as_object(task.get("error"))
        code = error.get("code")
        text = str(error.get("message") or "the task failed")
        raise MCPError(code if isinstance(code, int) else _INTERNAL_ERROR, text, error.get("data"))
    if status == "cancelled":
        raise UpstreamError(f"{server}: the task of this call was cancelled")
    shown = printable(str(status), 40)
    raise UpstreamError(f"{server}: the task of this call has the unknown state {shown!r}")


def _interval_s(task: Mapping[str, Any]) -> float:
    """Returns the seconds until a task is asked for again."""
    interval_ms = task.get("pollIntervalMs")
    named = interval_ms / 1000 if isinstance(interval_ms, int | float) else _POLL_S
    return min(max(named, _MIN_POLL_S), _MAX_POLL_S)
