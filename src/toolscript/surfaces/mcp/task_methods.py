"""Answers a client's requests about tasks, which servers make of long calls (SEP-2663).

A client that does not know tasks waits for the result of its call instead: see
`gateway.upstream.task_polling`.
"""

from typing import Any, TypeAlias

from toolscript.app.application import App
from toolscript.errors import RefusedError
from toolscript.surfaces.mcp.request_context import RequestContext
from toolscript.surfaces.mcp.task_ids import Task
from toolscript.surfaces.mcp.tool_calls import ToolCalls
from toolscript.surfaces.server.error_codes import INVALID_PARAMS
from toolscript.text.wire_constants import TASKS

_Raw: TypeAlias = dict[str, Any]
_MISSING_CAPABILITY = -32021


class TaskMethods:
    """The methods ``tasks/get``, ``tasks/update`` and ``tasks/cancel`` of one exposure.

    Args:
        app: Sends the requests.
        calls: Called the tools, and fits their results for a model.
    """

    def __init__(self, app: App, calls: ToolCalls) -> None:
        self._app = app
        self._calls = calls

    async def get(self, params: _Raw, context: RequestContext) -> _Raw:
        """Returns the state of a task, and its result once it is complete."""
        task = self._read(params, context)
        state = await self._send("tasks/get", task, context)
        if "result" in state:
            fitted = self._calls.fit(task.tool, state["result"], context, is_listed=task.is_listed)
            state = {**state, "result": await fitted}
        return {**state, "resultType": "complete", "taskId": params["taskId"]}

    async def update(self, params: _Raw, context: RequestContext) -> _Raw:
        """Passes on the answers to a task's questions."""
        answers: _Raw = params.get("inputResponses") or {}
        task = self._read(params, context)
        await self._send("tasks/update", task, context, inputResponses=answers)
        return {}

    async def cancel(self, params: _Raw, context: RequestContext) -> _Raw:
        """Asks the server to end a task."""
        await self._send("tasks/cancel", self._read(params, context), context)
        return {}

    def _read(self, params: _Raw, context: RequestContext) -> Task:
        """Returns a task of the caller's; raises `RefusedError` for any other id."""
        if not context.caller.accepts_tasks:
            needed: _Raw = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            text = f"declare the extension {TASKS} in the capabilities of the request"
            raise RefusedError(text, _MISSING_CAPABILITY, data=needed)
        task = self._calls.task_ids.read(str(params.get("taskId")), context.grant.holder)
        if task is None:
            raise RefusedError("there is no such task; call the tool again", INVALID_PARAMS)
        return task

    async def _send(self, method: str, task: Task, context: RequestContext, **more: Any) -> _Raw:
        """Sends a task's server a request, if the caller may still call the tool."""
        catalogue = self._app.catalogue(context.grant)
        server = catalogue.tool(task.tool).server
        asked = {"taskId": task.identifier, **more}
        return await catalogue.request(server, method, asked, context.caller)
