"""Answers the requests of MCP by method; and single JSON-RPC messages, at ``POST /message``."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

from toolscript.app.application import App
from toolscript.errors import RefusedError, ToolscriptError
from toolscript.surfaces.mcp.endpoint import ToolEndpoint
from toolscript.surfaces.mcp.prompts_and_resources import PromptsAndResources, SkillMethods
from toolscript.surfaces.mcp.request_context import Exposure, RequestContext
from toolscript.surfaces.mcp.tool_calls import ToolCalls
from toolscript.surfaces.server.error_codes import INVALID_PARAMS, codes_of
from toolscript.version import __version__

_METHOD_NOT_FOUND, INVALID_REQUEST = -32601, -32600
_VERSION = "2025-06-18"
_Raw: TypeAlias = dict[str, Any]
Method: TypeAlias = Callable[[_Raw, RequestContext], Awaitable[_Raw]]
"""Takes a request's parameters and context, and returns its result."""


def mcp_methods(app: App, tools: ToolEndpoint) -> dict[str, Method]:
    """Returns the methods of MCP for one exposure, by name."""
    others = PromptsAndResources(app)
    skills = SkillMethods(app, others)
    return {
        "tools/list": tools.list_tools,
        "tools/call": tools.call_tool,
        "prompts/list": others.list_prompts,
        "prompts/get": others.get_prompt,
        "resources/list": others.list_resources,
        "resources/templates/list": others.list_templates,
        "resources/read": skills.read_resource,
        "skills/list": skills.list_skills,
        "skills/get": skills.get_skill,
    }


class SessionlessEndpoint:
    """Answers single JSON-RPC messages, without a session."""

    def __init__(self, app: App, exposure: Exposure) -> None:
        methods = mcp_methods(app, ToolEndpoint(app, ToolCalls(app, exposure, in_detail=True)))
        self._methods = {"initialize": _initialize, "ping": _ping, **methods}

    async def answer(self, message: Any, context: RequestContext) -> _Raw | None:
        """Returns the response to a message; None for a notification, which gets none."""
        request = _request(message)
        if request is None:
            what = "a message is one JSON object, and its id a string, a number or null"
            return json_rpc_error(None, INVALID_REQUEST, what)
        identifier, name = request.get("id"), str(request.get("method"))
        params: Any = request.get("params") or {}
        if name.startswith("notifications/"):
            return None
        method = self._methods.get(name)
        if method is None:
            known = ", ".join(self._methods)
            shown = repr(request.get("method"))[:60]
            return json_rpc_error(
                identifier, _METHOD_NOT_FOUND, f"no method {shown}; there are: {known}"
            )
        if not isinstance(params, dict):
            return json_rpc_error(identifier, INVALID_PARAMS, "params must be an object")
        try:
            result = await method(cast("_Raw", params), context)
        except ToolscriptError as problem:
            return json_rpc_error(identifier, *error_fields(problem))
        return {"jsonrpc": "2.0", "id": identifier, "result": result}


def _request(message: Any) -> _Raw | None:
    """Returns a message as an object; None for what JSON-RPC does not know as one."""
    if not isinstance(message, dict):
        return None
    request = cast("_Raw", message)
    return None if isinstance(request.get("id"), bool | dict | list) else request


def error_fields(problem: ToolscriptError) -> tuple[int, str, Any]:
    """Returns an error's code, message and data; a server's refusal keeps its code and data."""
    if isinstance(problem, RefusedError):
        return problem.code, str(problem), problem.data
    return codes_of(type(problem)).json_rpc, str(problem), None


async def _initialize(*_: object) -> _Raw:
    return {
        "protocolVersion": _VERSION,
        "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
        "serverInfo": {"name": "toolscript", "version": __version__},
    }


async def _ping(*_: object) -> _Raw:
    return {}


def json_rpc_error(identifier: Any, code: int, message: str, data: object = None) -> _Raw:
    """Returns the message that refuses a request."""
    problem: _Raw = {"code": code, "message": message}
    if data is not None:
        problem["data"] = data
    return {"jsonrpc": "2.0", "id": identifier, "error": problem}
