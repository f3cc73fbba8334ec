"""JSON-RPC without a session: one request, one answer, at ``POST /message``."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

from toolscript import __version__
from toolscript.errors import ArgumentsError, RefusedError, ToolscriptError
from toolscript.surfaces.mcp.endpoint import RequestContext, ToolEndpoint
from toolscript.surfaces.mcp.prompts_and_resources import PromptsAndResources
from toolscript.surfaces.server.error_codes import INVALID_PARAMS, codes_of

_METHOD_NOT_FOUND, _INVALID_REQUEST = -32601, -32600
_VERSION = "2025-06-18"
_Raw: TypeAlias = dict[str, Any]
_Answer: TypeAlias = Callable[[_Raw, RequestContext], Awaitable[_Raw]]


class Messages:
    """Answers single requests, as a `ToolEndpoint` has it. Holds nothing between them."""

    def __init__(self, door: ToolEndpoint, passed: PromptsAndResources) -> None:
        self._door = door
        self._passed = passed
        self._answers: dict[str, _Answer] = {
            "initialize": self._initialize,
            "ping": self._ping,
            "tools/list": self._list,
            "tools/call": self._call,
            "prompts/list": self._prompts,
            "prompts/get": self._prompt,
            "resources/list": self._resources,
            "resources/read": self._resource,
        }

    async def answer(self, message: Any, asker: RequestContext) -> _Raw | None:
        """The response to a message; None for a notification, which wants none."""
        if not isinstance(message, dict):
            return _error(None, _INVALID_REQUEST, "a message is one JSON object")
        request = cast("_Raw", message)
        identifier, method = request.get("id"), request.get("method")
        params: Any = request.get("params") or {}
        if isinstance(method, str) and method.startswith("notifications/"):
            return None
        found = self._answers.get(method) if isinstance(method, str) else None
        if found is None:
            known = ", ".join(self._answers)
            shown = repr(method)[:60]
            return _error(identifier, _METHOD_NOT_FOUND, f"no method {shown}; there are: {known}")
        if not isinstance(params, dict):
            return _error(identifier, INVALID_PARAMS, "params must be an object")
        return await self._answered(identifier, found, cast("_Raw", params), asker)

    @staticmethod
    async def _answered(
        identifier: Any, found: _Answer, params: _Raw, asker: RequestContext
    ) -> _Raw:
        try:
            return {"jsonrpc": "2.0", "id": identifier, "result": await found(params, asker)}
        except RefusedError as refusal:
            return _error(identifier, refusal.code, refusal.said, refusal.data)
        except ToolscriptError as problem:
            return _error(identifier, codes_of(type(problem)).json_rpc, str(problem))

    async def _initialize(self, params: _Raw, asker: RequestContext) -> _Raw:
        del params, asker
        return {
            "protocolVersion": _VERSION,
            "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
            "serverInfo": {"name": "toolscript", "version": __version__},
        }

    async def _ping(self, params: _Raw, asker: RequestContext) -> _Raw:
        del params, asker
        return {}

    async def _list(self, params: _Raw, asker: RequestContext) -> _Raw:
        del params
        return {"tools": self._door.tools(asker)}

    async def _call(self, params: _Raw, asker: RequestContext) -> _Raw:
        return await self._door.call(str(params.get("name")), _arguments(params), asker)

    async def _prompts(self, params: _Raw, asker: RequestContext) -> _Raw:
        del params
        return {"prompts": await self._passed.prompts(asker)}

    async def _prompt(self, params: _Raw, asker: RequestContext) -> _Raw:
        return await self._passed.prompt(str(params.get("name")), _arguments(params), asker)

    async def _resources(self, params: _Raw, asker: RequestContext) -> _Raw:
        del params
        return {"resources": await self._passed.resources(asker)}

    async def _resource(self, params: _Raw, asker: RequestContext) -> _Raw:
        return await self._passed.resource(str(params.get("uri")), asker)


def _arguments(params: _Raw) -> _Raw:
    """The ``arguments`` of a request, where there are none an empty object."""
    arguments = params.get("arguments", {})
    if not isinstance(arguments, dict):
        shown = repr(arguments)[:60]
        raise ArgumentsError(f"arguments is {shown}; send a JSON object, such as {{}}")
    return cast("_Raw", arguments)


def _error(identifier: Any, code: int, message: str, data: object = None) -> _Raw:
    problem: _Raw = {"code": code, "message": message}
    if data is not None:
        problem["data"] = data
    return {"jsonrpc": "2.0", "id": identifier, "error": problem}
