"""Writes tools as the definitions that model APIs take: MCP, OpenAI, Anthropic.

A tool has the same name in every answer: letters, digits, ``_`` and ``-``, as every API takes them.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Any, Literal, get_args

from toolscript.types import ToolSpec

Format = Literal["mcp", "openai", "anthropic"]
FORMATS: tuple[Format, ...] = get_args(Format)
MAX_NAME_CHARS = 46
"""APIs accept 64 characters; clients use some for a prefix (``mcp__toolscript__`` has 17)."""
DIGITS, MAX_DIGITS = 8, MAX_NAME_CHARS - 1
_INVALID = re.compile(r"[^A-Za-z0-9_-]")
MAX_NAMESPACE = 9
"""Functions in one namespace: OpenAI advises fewer than ten."""


def valid_name(name: str, digits: int = DIGITS) -> str:
    """Returns a name that every API takes; a valid one stays as it is.

    A changed name ends with hexadecimal digits of the SHA-256 of the former one.

    Args:
        name: The name, such as a tool's id.
        digits: The number of these digits, 8 to 44.
    """
    plain = _INVALID.sub("_", name)
    if plain == name and len(name) <= MAX_NAME_CHARS:
        return name
    digest = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:digits]
    return f"{plain[: MAX_NAME_CHARS - digits - 1]}-{digest}"


def define_tool(tool: ToolSpec, form: Format, name: str | None = None) -> dict[str, Any]:
    """Returns a tool's definition.

    Args:
        tool: The tool.
        form: ``mcp`` for an element of ``tools/list``, ``openai`` for a function of the Responses
            API, ``anthropic`` for a tool of the Messages API.
        name: The name by which a model calls it; its id if there is none.
    """
    called = valid_name(name or tool.id)
    empty: dict[str, Any] = {"type": "object", "properties": {}}
    schema = empty | tool.input_schema
    if form == "anthropic":
        return {"name": called, "description": tool.description, "input_schema": schema}
    if form == "openai":
        return {
            "type": "function",
            "name": called,
            "description": tool.description,
            "parameters": schema,
            "strict": False,  # a server's schema seldom has what strict ones need
        }
    return list_entry(tool, called)


def list_entry(spec: ToolSpec, name: str) -> dict[str, Any]:
    """Returns a tool as an element of MCP's ``tools/list``.

    Args:
        spec: The tool.
        name: The name by which a model calls it.
    """
    entry = {
        "name": name,
        "title": spec.title or None,
        "description": spec.description or None,
        "inputSchema": spec.input_schema or {"type": "object"},
        "outputSchema": spec.output_schema,
        "annotations": _annotations(spec),
        "icons": spec.icons,
        "_meta": spec.meta,
    }
    return {key: value for key, value in entry.items() if value is not None}


def _annotations(spec: ToolSpec) -> dict[str, Any] | None:
    """Returns the server's hints, and in their place what the user says; a guess is no hint."""
    if spec.class_source != "config":
        return spec.annotations
    stated = {
        "readOnlyHint": spec.tool_class == "read",
        "destructiveHint": spec.tool_class == "destructive",
    }
    return {**(spec.annotations or {}), **stated}


def define_tools(tools: Iterable[ToolSpec], form: Format) -> list[dict[str, Any]]:
    """Returns the definitions of several tools, in their order.

    For OpenAI the tools of one server are a namespace, at the place of the first of them; see
    `define_namespaces`.
    """
    if form == "openai":
        return define_namespaces((tool, tool.id) for tool in tools)
    return [define_tool(tool, form) for tool in tools]


def define_namespaces(tools: Iterable[tuple[ToolSpec, str]]) -> list[dict[str, Any]]:
    """Returns OpenAI's namespaces for tools and the names by which they are called."""
    servers: dict[str, list[dict[str, Any]]] = {}
    for tool, name in tools:
        servers.setdefault(tool.server, []).append(define_tool(tool, "openai", name))
    return [
        {
            "type": "namespace",
            "name": valid_name(f"{server}_{at // MAX_NAMESPACE + 1}" if at else server),
            "description": f"Tools of {server}.",
            "tools": functions[at : at + MAX_NAMESPACE],
        }
        for server, functions in servers.items()
        for at in range(0, len(functions), MAX_NAMESPACE)
    ]
