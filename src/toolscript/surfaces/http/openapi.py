"""Describes the HTTP routes as an OpenAPI document: ``/openapi.json``."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import msgspec
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.config.settings import MAX_QUERY_CHARS, OPTION
from toolscript.surfaces.http.answers import JsonRpcAnswer, schemas
from toolscript.surfaces.http.field_types import SCHEMA_REF, Json
from toolscript.surfaces.server.error_answers import ErrorAnswer

VERSION = "3.1.1"
PATH = "/openapi.json"
TEXT: Json = {"type": "string"}
TEXTS: Json = {"type": "array", "items": TEXT}
BOOLEAN: Json = {"type": "boolean"}
OBJECT: Json = {"type": "object"}
Handler: TypeAlias = Callable[[App, Request], Awaitable[Any]]
"""Answers a request: with a struct of `answers`, a response, or None for nothing to say."""


class Endpoint(NamedTuple):
    """A route: the function that answers it, whose name and docstring stand in the document."""

    method: str
    path: str
    handler: Handler
    answer: type[msgspec.Struct] | None
    parameters: tuple[Json, ...]
    media_type: str
    """What the answer may be besides JSON, or instead of it where there is no ``answer``."""
    body: Json | None
    """The schema of the JSON that a POST takes."""


class Endpoints(list[Endpoint]):
    """The routes of a module; `add` decorates the functions that answer them."""

    def add(
        self,
        method: str,
        path: str,
        answer: type[msgspec.Struct] | None = None,
        *parameters: Json,
        media_type: str = "",
        body: Json | None = None,
    ) -> Callable[[Handler], Handler]:
        """Returns a decorator for the function that answers this route; see `Endpoint`."""

        def decorate(handler: Handler) -> Handler:
            self.append(Endpoint(method, path, handler, answer, parameters, media_type, body))
            return handler

        return decorate


def parameter(
    name: str, description: str, schema: Json, *, required: bool = False, place: str = "query"
) -> Json:
    """Returns the description of a parameter."""
    described = {"name": name, "in": place, "description": description, "schema": schema}
    return described | ({"required": True} if required else {})


def search_parameters(meaning: str) -> tuple[Json, ...]:
    """Returns the parameters of both searches; ``meaning`` is that of the question."""
    query = {"type": "string", "minLength": 1, "maxLength": MAX_QUERY_CHARS}
    return (
        parameter("q", meaning, query, required=True),
        parameter("limit", "At most this many results.", _range("limit")),
        parameter("threshold", "Least confidence.", _range("threshold")),
        parameter("alpha", "Weight of the semantic score.", _range("alpha")),
        parameter("steps", "`none` makes the formula the confidence.", {"enum": ["all", "none"]}),
        parameter("explain", "Say how each confidence came about.", BOOLEAN),
    )


MODULE_PARAMETERS = (
    parameter("filter", "Servers' names and tools' ids, with commas between.", TEXTS),
    parameter("json", "As JSON, with a call of the first tool asked for.", BOOLEAN),
)


def describe(version: str, endpoints: Iterable[Endpoint]) -> Json:
    """Returns the document for this version of the package."""
    paths: Json = {}
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
        "components": {"schemas": schemas(), "securitySchemes": {"token": token}},
        "security": [{}, {"token": []}],
    }


def _operation(endpoint: Endpoint) -> Json:
    content = {} if endpoint.answer is None else _json(reference(endpoint.answer))
    if endpoint.media_type:
        is_json = endpoint.media_type == "application/json"
        content[endpoint.media_type] = {"schema": OBJECT if is_json else TEXT}
    responses = {
        "200": {"description": "The answer.", "content": content},
        "default": {"description": "Why there is none.", "content": _json(reference(ErrorAnswer))},
    }
    if endpoint.answer is JsonRpcAnswer:
        responses["202"] = {"description": "A notification: there is nothing to say."}
    first, *others = endpoint.handler.__name__.split("_")
    operation: Json = {
        "operationId": first + "".join(word.capitalize() for word in others),
        "summary": (endpoint.handler.__doc__ or "").partition("\n")[0].rstrip("."),
        "responses": responses,
    }
    if endpoint.parameters:
        operation["parameters"] = list(endpoint.parameters)
    if endpoint.body is not None:
        operation["requestBody"] = {"content": _json(endpoint.body)}
    return operation


def _json(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}


def reference(answer: type[msgspec.Struct]) -> Json:
    """Returns the schema that refers to a struct of `answers`."""
    return {"$ref": SCHEMA_REF.format(name=answer.__name__)}


def _range(name: str) -> Json:
    option = OPTION[name]
    kind = "integer" if option.kind is int else "number"
    low, high = option.bounds or (None, None)
    return {"type": kind, "minimum": low, "maximum": high}
