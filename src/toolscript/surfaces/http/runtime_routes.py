"""The routes below ``/runtime``: modules of typed clients."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from toolscript.app.application import App
from toolscript.codegen.typed_clients import Language
from toolscript.config.settings import Option
from toolscript.surfaces.http.answers import ModuleAnswer
from toolscript.surfaces.http.openapi import Endpoints
from toolscript.surfaces.http.request_input import parsed
from toolscript.surfaces.server.authentication import grant_of

_MEDIA: dict[Language, str] = {"ts": "application/typescript", "py": "text/x-python"}
_NOT_MODIFIED = 304
_FILTER = Option("filter", list, None, "Servers' names and tools' ids, with commas between.")
_JSON = Option("json", bool, default=False, help="As JSON, with a call of the first of them.")
ENDPOINTS = Endpoints()


@ENDPOINTS.add("GET", "/runtime/tools.ts", ModuleAnswer, _FILTER, _JSON, media_type=_MEDIA["ts"])
async def typescript_client(app: App, request: Request) -> Any:
    """A TypeScript module."""
    return await _module(app, request, "ts")


@ENDPOINTS.add("GET", "/runtime/tools.py", ModuleAnswer, _FILTER, _JSON, media_type=_MEDIA["py"])
async def python_client(app: App, request: Request) -> Any:
    """A Python module."""
    return await _module(app, request, "py")


async def _module(app: App, request: Request, language: Language) -> Any:
    names = [n.strip() for each in request.query_params.getlist("filter") for n in each.split(",")]
    catalogue = app.catalogue(grant_of(request))
    module = await catalogue.module(language, [n for n in names if n])
    if parsed(request, _JSON):
        return ModuleAnswer(module=module.text.decode(), usage=module.usage)
    headers = {"etag": f'"{module.etag}"', "cache-control": "no-cache"}
    if _is_cached(request, module.etag):
        return Response(status_code=_NOT_MODIFIED, headers=headers)
    return Response(module.text, headers=headers, media_type=f"{_MEDIA[language]}; charset=utf-8")


def _is_cached(request: Request, etag: str) -> bool:
    """Whether the client's copy of the module has this tag."""
    known = request.headers.get("if-none-match", "").split(",")
    return any(each.strip().removeprefix("W/").strip('"') in {etag, "*"} for each in known)
