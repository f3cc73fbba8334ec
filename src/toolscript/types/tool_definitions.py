"""Reads a function, or somebody's definition of a tool, as the fields of a tool."""

import inspect
from collections.abc import Callable
from typing import Any, cast, get_type_hints

import msgspec

from toolscript.errors import InputError
from toolscript.text.json_values import as_object

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def tool_fields(source: Any) -> dict[str, Any]:
    """Returns the fields of a `ToolSpec`, but for its server.

    Args:
        source: A function, or a definition as MCP, OpenAI or Anthropic has it: a mapping, or an
            object with a method ``model_dump``.

    Raises:
        InputError: It is none of these, or has no name.
    """
    stated: Any = source
    if callable(source):
        stated = {
            "name": getattr(source, "__name__", ""),
            "description": inspect.getdoc(source),
            "input_schema": _arguments_schema(cast("Callable[..., Any]", source)),
        }
    elif hasattr(source, "model_dump"):
        stated = source.model_dump(by_alias=True)
    fields = as_object(stated)
    fields = as_object(fields.get("function")) or fields  # OpenAI's chat completions nest it
    keys = ("inputSchema", "input_schema", "parameters")
    schema = next(filter(None, (as_object(fields.get(key)) for key in keys)), dict[str, Any]())
    name, description = fields.get("name"), fields.get("description") or ""
    if not (isinstance(name, str) and name and isinstance(description, str)):
        raise InputError(
            f"{type(source).__name__} is no tool; give a function, or a definition with a name, as "
            "MCP, OpenAI or Anthropic has it"
        )
    annotations = as_object(fields.get("annotations"))
    return {
        "name": name,
        "description": description,
        "input_schema": schema,
        "annotations": annotations or None,
    }


def _arguments_schema(function: Callable[..., Any]) -> dict[str, Any]:
    """Returns the JSON Schema of a function's arguments; of unusual types the names alone."""
    parameters = inspect.signature(function).parameters
    names = [name for name, each in parameters.items() if each.kind not in _VARIADIC]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: dict[str, Any]() for name in names},
        "required": [name for name in names if parameters[name].default is inspect.Parameter.empty],
    }
    try:
        hints = get_type_hints(function)
        components, defined = msgspec.json.schema_components(
            [hints.get(name, Any) for name in names], ref_template="#/$defs/{name}"
        )
    except (TypeError, NameError, ValueError):  # a type that is no JSON, or that is not there
        return schema
    schema["properties"] = dict(zip(names, components, strict=True))
    return schema | ({"$defs": defined} if defined else {})
