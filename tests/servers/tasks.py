"""An MCP server that continues its calls as tasks (SEP-2663): ``tasks.py STATE``.

It keeps each task in a file of the folder STATE, so that the tasks outlive it, and appends a line
to ``calls`` there for each call of its tool, to ``cancelled`` for each task that is cancelled.
"""

import json
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias, cast

from mcp.server.context import CallNext, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, RequestParams
from pydantic import Field

Context: TypeAlias = ServerRequestContext[Any, Any]
STATE = Path(sys.argv[1])
FORM = {"type": "object", "properties": {"colour": {"type": "string"}}}
SECRET = {"type": "object", "properties": {"password": {"type": "string"}}}


def note(name: str, line: str) -> None:
    with (STATE / name).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


class TaskParams(RequestParams):
    task_id: str
    input_responses: dict[str, Any] = Field(default_factory=dict[str, Any])


class Tasks(Extension):
    """Makes a task of each call of ``work``, unless its client knows none."""

    identifier = "io.modelcontextprotocol/tasks"

    def methods(self) -> list[MethodBinding]:
        return [
            MethodBinding("tasks/get", TaskParams, self.get),
            MethodBinding("tasks/update", TaskParams, self.update),
            MethodBinding("tasks/cancel", TaskParams, self.cancel),
        ]

    async def intercept_tool_call(
        self,
        params: CallToolRequestParams,
        ctx: ServerRequestContext[Any, Any],
        call_next: CallNext,
    ) -> Any:
        capabilities = ctx.session.client_capabilities
        known = capabilities is not None and self.identifier in (capabilities.extensions or {})
        if params.name != "work" or not known:
            return await call_next(ctx)
        arguments = cast("dict[str, Any]", params.arguments)
        note("calls", json.dumps(arguments))
        identifier = f"task-{len((STATE / 'calls').read_text('utf-8').splitlines())}"
        self.write(identifier, {**arguments, "begun": time.time(), "answers": {}})
        return {"resultType": "task", **self.state(identifier)}

    def state(self, identifier: str) -> dict[str, Any]:
        path = STATE / f"{identifier}.json"
        if not path.exists():
            raise MCPError(-32602, f"no task {identifier}")
        task = json.loads(path.read_text("utf-8"))
        when = datetime.fromtimestamp(task["begun"], UTC).isoformat()
        passed = time.time() - task["begun"]
        state: dict[str, Any] = {
            "taskId": identifier,
            "createdAt": when,
            "lastUpdatedAt": when,
            "ttlMs": None,
            "pollIntervalMs": 50,
            "status": "working",
            "statusMessage": "half done" if passed * 2 > task["seconds"] else "begun",
        }
        if task.get("cancelled"):
            return {**state, "status": "cancelled"}
        open_questions = [each for each in task.get("asks", []) if each not in task["answers"]]
        if open_questions:
            forms = {"colour": FORM, "password": SECRET}
            asked = {
                name: {
                    "method": "elicitation/create",
                    "params": {"message": f"Which {name}?", "requestedSchema": forms[name]},
                }
                for name in open_questions
            }
            return {**state, "status": "input_required", "inputRequests": asked}
        if passed < task["seconds"]:
            return state
        if task.get("fails"):
            error = {"code": -32050, "message": "the oven is cold"}
            return {**state, "status": "failed", "error": error}
        text = json.dumps(task["answers"]) + "x" * task.get("size", 0)
        result = {"content": [{"type": "text", "text": text}], "isError": False}
        return {**state, "status": "completed", "result": result}

    def write(self, identifier: str, task: dict[str, Any]) -> None:
        (STATE / f"{identifier}.json").write_text(json.dumps(task), "utf-8")

    async def get(self, ctx: Context, params: TaskParams) -> Any:
        del ctx
        state = self.state(params.task_id)
        task = json.loads((STATE / f"{params.task_id}.json").read_text("utf-8"))
        if task.get("dies"):
            self.write(params.task_id, {**task, "dies": False})
            os._exit(1)
        return state

    async def update(self, ctx: Context, params: TaskParams) -> Any:
        del ctx
        self.state(params.task_id)
        task = json.loads((STATE / f"{params.task_id}.json").read_text("utf-8"))
        self.write(params.task_id, {**task, "answers": task["answers"] | params.input_responses})
        return {}

    async def cancel(self, ctx: Context, params: TaskParams) -> Any:
        del ctx
        self.state(params.task_id)
        note("cancelled", params.task_id)
        task = json.loads((STATE / f"{params.task_id}.json").read_text("utf-8"))
        self.write(params.task_id, {**task, "cancelled": True})
        return {}


server = MCPServer("tasks", version="1", extensions=[Tasks()])


@server.tool(structured_output=False)
def work(
    seconds: float,
    asks: list[str] = [],  # noqa: B006 - a schema
    fails: bool = False,  # noqa: FBT001, FBT002 - a schema
    size: int = 0,
    dies: bool = False,  # noqa: FBT001, FBT002 - a schema
) -> str:
    """Do a work that takes a while."""
    return f"at once: {seconds} {asks} {fails} {size} {dies}"


STATE.mkdir(parents=True, exist_ok=True)
server.run("stdio")
