"""The routes below ``/runtime``: modules of typed clients."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from toolscript.app.application import App
from toolscript.codegen.typed_clients import Language
from toolscript.surfaces.http.answers import ModuleAnswer
from toolscript.surfaces.http.openapi import MODULE_PARAMETERS, Endpoints
from toolscript.surfaces.http.request_input import flag
from toolscript.surfaces.server.authentication import grant_of

_MEDIA: dict[Language, str] = {"ts": "application/typescript", "py": "text/x-python"}
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
    catalogue = app.catalogue(grant_of(request))
    module = await catalogue.module(language, [n for n in names if n])
    if flag(request, "json"):
        return ModuleAnswer(module=module.text.decode(), usage=module.usage)
    headers = {"etag": f'"{module.etag}"', "cache-control": "no-cache"}
    if _is_cached(request, module.etag):
        return Response(status_code=_NOT_MODIFIED, headers=headers)
    return Response(module.text, headers=headers, media_type=f"{_MEDIA[language]}; charset=utf-8")


def _is_cached(request: Request, etag: str) -> bool:
    """Whether the client's copy of the module has this tag."""
    known = request.headers.get("if-none-match", "").split(",")
    return any(each.strip().removeprefix("W/").strip('"') in {etag, "*"} for each in known)
