"""Describes the HTTP routes as an OpenAPI document: ``/openapi.json``."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import msgspec
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.config.settings import Option
from toolscript.surfaces.http.answers import JsonRpcAnswer
from toolscript.surfaces.http.field_types import SCHEMA_REF, Json
from toolscript.surfaces.http.search_answers import SkillHit, ToolHit
from toolscript.surfaces.server.error_answers import ErrorAnswer

VERSION = "3.1.1"
PATH = "/openapi.json"
REQUIRED: Any = ...
"""The default of a parameter that has to be given."""
_TEXT: Json = {"type": "string"}
_OBJECT: Json = {"type": "object"}
_SCHEMAS: dict[type, Json] = {
    str: _TEXT,
    list: {"type": "array", "items": _TEXT},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
}
Handler: TypeAlias = Callable[[App, Request], Awaitable[Any]]
"""Answers a request: with a struct of `answers`, a response, or None for nothing to say."""


class Endpoint(NamedTuple):
    """A route: the function that answers it, whose name and docstring stand in the document."""

    method: str
    path: str
    handler: Handler
    answer: type[msgspec.Struct] | None
    parameters: tuple[Option, ...]
    media_type: str = ""
    """What the answer may be besides JSON, or instead of it where there is no ``answer``."""
    body: type | None = None
    """The JSON that a POST takes: a struct, or any object."""
    owners: str = ""
    """The act of it that only the gateway's owner may do; empty if others may, too."""


class Endpoints(list[Endpoint]):
    """The routes of a module; `add` decorates the functions that answer them."""

    def add(
        self,
        method: str,
        path: str,
        answer: type[msgspec.Struct] | None = None,
        *parameters: Option,
        **more: Any,
    ) -> Callable[[Handler], Handler]:
        """Returns a decorator for the function that answers this route; see `Endpoint`."""

        def decorate(handler: Handler) -> Handler:
            self.append(Endpoint(method, path, handler, answer, parameters, **more))
            return handler

        return decorate


def describe(version: str, endpoints: Iterable[Endpoint]) -> Json:
    """Returns the document for this version of the package."""
    paths: Json = {}
    endpoints = list(endpoints)
    for endpoint in endpoints:
        path = endpoint.path.replace(":path}", "}")
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint)
    token = {
        "type": "http",
        "scheme": "bearer",
        "description": "Asked for once `toolscript token create` has made one.",
    }
    return {
        "openapi": VERSION,
        "info": {
            "title": "toolscript",
            "version": version,
            "summary": "Find the right MCP tool at once, and call it.",
        },
        "paths": paths,
        "components": {"schemas": schemas(endpoints), "securitySchemes": {"token": token}},
        "security": [{}, {"token": []}],
    }


def schemas(endpoints: Iterable[Endpoint]) -> Json:
    """Returns the JSON schema of each answer, and body, by the name by which others refer to it."""
    types: list[Any] = [ErrorAnswer, ToolHit, SkillHit]
    types += [each for e in endpoints for each in (e.answer, e.body) if each not in {None, dict}]
    _, components = msgspec.json.schema_components(types, ref_template=SCHEMA_REF)
    return msgspec.json.decode(msgspec.json.encode(components))  # defaults are tuples, not lists


def _operation(endpoint: Endpoint) -> Json:
    content = {} if endpoint.answer is None else _json(endpoint.answer)
    if endpoint.media_type:
        is_json = endpoint.media_type == "application/json"
        content[endpoint.media_type] = {"schema": _OBJECT if is_json else _TEXT}
    responses = {
        "200": {"description": "The answer.", "content": content},
        "default": {"description": "Why there is none.", "content": _json(ErrorAnswer)},
    }
    if endpoint.answer is JsonRpcAnswer:
        responses["202"] = {"description": "A notification: there is nothing to say."}
    first, *others = endpoint.handler.__name__.split("_")
    operation: Json = {
        "operationId": first + "".join(word.capitalize() for word in others),
        "summary": (endpoint.handler.__doc__ or "").partition("\n")[0].rstrip("."),
        "responses": responses,
        "parameters": [_parameter(each, endpoint.path) for each in endpoint.parameters],
    }
    if endpoint.body is not None:
        operation["requestBody"] = {"content": _json(endpoint.body)}
    return operation


def _json(kind: type) -> Json:
    """Returns the content that is a struct, or any object, as JSON."""
    schema = _OBJECT if kind is dict else {"$ref": SCHEMA_REF.format(name=kind.__name__)}
    return {"application/json": {"schema": schema}}


def _parameter(option: Option, path: str) -> Json:
    schema = {"enum": [*option.choices]} if option.choices else {**_SCHEMAS[option.kind]}
    if option.bounds:
        schema |= dict(zip(("minimum", "maximum"), option.bounds, strict=True))
    place = "path" if f"{{{option.name}" in path else "query"
    described = {"name": option.name, "in": place, "description": option.help, "schema": schema}
    return described | ({"required": True} if option.default is REQUIRED else {})
