"""Writes the type declarations, and the code before a script, by which it can call tools."""

import re
from collections.abc import Mapping
from functools import partial
from itertools import groupby

import msgspec

from toolscript.codegen import python
from toolscript.codegen.error_isolation import isolated
from toolscript.codegen.identifiers import Identifiers
from toolscript.types import ToolSpec

_HEAD = """\
from __future__ import annotations

from typing import Any, Literal, Never, NotRequired, TypeAlias, TypedDict

async def search(query: str, limit: int = ...) -> list[dict[str, Any]]: ...
async def result(handle: str, query: str = ...) -> Any: ...
"""
_BEGINNING = """\
import json as _json
class _Server: pass
def _tool(name):
    async def call(*given, **named):
        text, is_json = await _call(name, given, named)
        try:
            return _json.loads(text) if is_json else text
        except ValueError:
            return text
    return call
async def search(query, limit=5): return _json.loads(await _search(query, limit))
async def result(handle, query=""): return _json.loads(await _result(str(handle), str(query)))
tools = _Server()
"""


class ScriptTools(msgspec.Struct, frozen=True):
    """The tools of a script, as code."""

    stubs: str
    """Their declarations, against which the script is checked."""
    beginning: str
    """Runs before the script, and makes ``tools``, ``search`` and ``result``."""
    classes: dict[str, tuple[str, tuple[str, ...]]]
    """The expression of each class of the stubs, such as ``tools.files``, and its attributes."""


def script_tools(
    tools: Mapping[str, ToolSpec], allowed: Mapping[str, ToolSpec], script: str
) -> ScriptTools:
    """Returns the allowed tools that a script names, as far as its words tell.

    Args:
        tools: The whole catalogue, on which the identifiers depend.
        allowed: The tools that the script may call, by id.
        script: The script.
    """
    identifiers = Identifiers((tool.server, tool.name) for tool in tools.values())
    words = set(re.findall(r"\w+", script))
    types, servers, attributes = list[str](), list[str](), list[str]()
    every = dict.fromkeys(identifiers.snake[tool.server] for tool in allowed.values())
    beginning, classes = [_BEGINNING], {"_Tools": ("tools", tuple(every))}
    for server, own in groupby(sorted(allowed.values(), key=_server), _server):
        attribute, name = identifiers.snake[server], identifiers.classes[server]
        if attribute not in words:
            continue
        methods, lines, spelled = identifiers.methods[server], list[str](), list[str]()
        beginning.append(f"tools.{attribute} = _Server()")
        for tool in own:
            method = methods[tool.name]
            spelled.append(method)
            if method not in words:
                continue
            write = partial(python.keyword_method, identifiers=identifiers)
            declared, line = isolated(tool, write)
            types += declared
            lines.append(line)
            beginning.append(f"tools.{attribute}.{method} = _tool({tool.id!r})")
        servers.append("\n".join([f"class {name}:", *(lines or ["    pass"]), ""]))
        attributes.append(f"    {attribute}: {name}")
        classes[name] = f"tools.{attribute}", tuple(spelled)
    table = ["class _Tools:", *(attributes or ["    pass"]), "tools: _Tools", ""]
    stubs = "\n".join([_HEAD, *types, *servers, *table])
    return ScriptTools(stubs, "\n".join(beginning), classes)


def _server(tool: ToolSpec) -> str:
    return tool.server
