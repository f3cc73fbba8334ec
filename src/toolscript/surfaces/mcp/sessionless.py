"""Answers the requests of MCP by method; and single JSON-RPC messages, at ``POST /message``."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

from toolscript import __version__
from toolscript.app.application import App
from toolscript.errors import RefusedError, ToolscriptError
from toolscript.surfaces.mcp.endpoint import Exposure, RequestContext, ToolEndpoint
from toolscript.surfaces.mcp.prompts_and_resources import PromptsAndResources, arguments_of
from toolscript.surfaces.server.error_codes import INVALID_PARAMS, codes_of

_METHOD_NOT_FOUND, _INVALID_REQUEST = -32601, -32600
_VERSION = "2025-06-18"
_Raw: TypeAlias = dict[str, Any]
Method: TypeAlias = Callable[[_Raw, RequestContext], Awaitable[_Raw]]
"""Takes a request's parameters and context, and returns its result."""


class McpMethods:
    """The methods of MCP for one exposure. Keeps nothing about its callers."""

    def __init__(self, app: App, exposure: Exposure) -> None:
        self.tools = ToolEndpoint(app, exposure)
        others = PromptsAndResources(app)
        self.by_name: dict[str, Method] = {
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "prompts/list": others.list_prompts,
            "prompts/get": others.get_prompt,
            "resources/list": others.list_resources,
            "resources/templates/list": others.list_templates,
            "resources/read": others.read_resource,
            "completion/complete": others.complete,
        }

    async def _list_tools(self, params: _Raw, context: RequestContext) -> _Raw:
        del params
        return {"tools": self.tools.tools(context)}

    async def _call_tool(self, params: _Raw, context: RequestContext) -> _Raw:
        return await self.tools.call(str(params.get("name")), arguments_of(params), context)


class SessionlessEndpoint:
    """Answers single JSON-RPC messages, without a session."""

    def __init__(self, app: App, exposure: Exposure) -> None:
        methods = McpMethods(app, exposure).by_name
        self._methods = {"initialize": _initialize, "ping": _ping, **methods}
        del self._methods["completion/complete"]

    async def answer(self, message: Any, context: RequestContext) -> _Raw | None:
        """Returns the response to a message; None for a notification, which gets none."""
        if not isinstance(message, dict):
            return _error(None, _INVALID_REQUEST, "a message is one JSON object")
        request = cast("_Raw", message)
        identifier, name = request.get("id"), str(request.get("method"))
        params: Any = request.get("params") or {}
        if name.startswith("notifications/"):
            return None
        method = self._methods.get(name)
        if method is None:
            known = ", ".join(self._methods)
            shown = repr(request.get("method"))[:60]
            return _error(identifier, _METHOD_NOT_FOUND, f"no method {shown}; there are: {known}")
        if not isinstance(params, dict):
            return _error(identifier, INVALID_PARAMS, "params must be an object")
        try:
            result = await method(cast("_Raw", params), context)
        except ToolscriptError as problem:
            return _error(identifier, *json_rpc_error(problem))
        return {"jsonrpc": "2.0", "id": identifier, "result": result}


def json_rpc_error(problem: ToolscriptError) -> tuple[int, str, Any]:
    """Returns an error's code, message and data; a server's own refusal keeps its own."""
    if isinstance(problem, RefusedError):
        return problem.code, problem.server_message, problem.data
    return codes_of(type(problem)).json_rpc, str(problem), None


async def _initialize(params: _Raw, context: RequestContext) -> _Raw:
    del params, context
    return {
        "protocolVersion": _VERSION,
        "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
        "serverInfo": {"name": "toolscript", "version": __version__},
    }


async def _ping(params: _Raw, context: RequestContext) -> _Raw:
    del params, context
    return {}


def _error(identifier: Any, code: int, message: str, data: object = None) -> _Raw:
    problem: _Raw = {"code": code, "message": message}
    if data is not None:
        problem["data"] = data
    return {"jsonrpc": "2.0", "id": identifier, "error": problem}
