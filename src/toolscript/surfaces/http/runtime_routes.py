"""Typed clients: the modules that ``/runtime`` serves."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from toolscript.app.application import App
from toolscript.codegen.typed_clients import Language
from toolscript.errors import RangeError
from toolscript.surfaces.http.answers import ModuleAnswer
from toolscript.surfaces.http.openapi import MODULE_PARAMETERS, Endpoints
from toolscript.surfaces.server.authentication import grant_of

_MEDIA: dict[Language, str] = {"ts": "application/typescript", "py": "text/x-python"}
_TRUTH = {"1": True, "true": True, "0": False, "false": False, "": False}
_NOT_MODIFIED = 304
ENDPOINTS = Endpoints()


@ENDPOINTS.add(
    "GET", "/runtime/tools.ts", ModuleAnswer, *MODULE_PARAMETERS, media_type=_MEDIA["ts"]
)
async def typescript_client(app: App, request: Request) -> Any:
    """A TypeScript module."""
    return await _module(app, request, "ts")


@ENDPOINTS.add(
    "GET", "/runtime/tools.py", ModuleAnswer, *MODULE_PARAMETERS, media_type=_MEDIA["py"]
)
async def python_client(app: App, request: Request) -> Any:
    """A Python module."""
    return await _module(app, request, "py")


async def _module(app: App, request: Request, language: Language) -> Any:
    names = [n.strip() for each in request.query_params.getlist("filter") for n in each.split(",")]
    made = await app.module(
        language,
        [name for name in names if name],
        compact=_truth(request, "compact"),
        grant=grant_of(request),
    )
    if _truth(request, "json"):
        return ModuleAnswer(module=made.text.decode(), usage=made.usage, tools=made.tools)
    headers = {"etag": f'"{made.etag}"', "cache-control": "no-cache"}
    if _has(request, made.etag):
        return Response(status_code=_NOT_MODIFIED, headers=headers)
    return Response(made.text, headers=headers, media_type=f"{_MEDIA[language]}; charset=utf-8")


def _truth(request: Request, name: str) -> bool:
    given = request.query_params.get(name, "")
    if given.casefold() not in _TRUTH:
        raise RangeError(f"{name} is {given[:60]!r}; expected 1 or 0")
    return _TRUTH[given.casefold()]


def _has(request: Request, etag: str) -> bool:
    """Whether the client has this module already."""
    known = request.headers.get("if-none-match", "").split(",")
    return any(each.strip().removeprefix("W/").strip('"') in {etag, "*"} for each in known)
