"""Makes the modules of typed tools, in TypeScript or Python."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import msgspec

from toolscript.codegen import python, typescript
from toolscript.codegen.error_isolation import isolated
from toolscript.codegen.identifiers import Identifiers
from toolscript.types import ToolSpec

Language: TypeAlias = Literal["ts", "py"]
_WRITERS: dict[Language, Any] = {"ts": typescript, "py": python}


class Module(msgspec.Struct, frozen=True):
    """A generated module."""

    text: bytes
    """Its source in UTF-8."""
    etag: str
    """Changes with the text."""
    usage: str
    """A call of the first tool that was chosen."""


class ToolCode(msgspec.Struct, frozen=True):
    """The code of one tool in a language."""

    types: str
    """The declarations of its parameters and its result."""
    usage: str
    """A call of it."""


def tool_code(
    tools: Mapping[str, ToolSpec], chosen: str, arguments: Any
) -> dict[Language, ToolCode]:
    """Returns the tool with the id ``chosen`` in each language.

    ``tools`` is the whole catalogue, on which the identifiers depend; ``arguments`` are those of
    the call.
    """
    identifiers = Identifiers((tool.server, tool.name) for tool in tools.values())
    tool = tools[chosen]

    def code(writer: Any, tool: ToolSpec) -> ToolCode:
        types = "\n".join(writer.declarations(tool, identifiers)).strip()
        return ToolCode(types, writer.usage(tool, identifiers, arguments))

    return {
        language: isolated(tool, partial(code, writer)) for language, writer in _WRITERS.items()
    }


def make_module(tools: Mapping[str, ToolSpec], language: Language, chosen: Sequence[str]) -> Module:
    """Returns the module of the tools with the ``chosen`` ids, of which there is at least one.

    ``tools`` is the whole catalogue, on which the identifiers depend.
    """
    writer = _WRITERS[language]
    identifiers = Identifiers((tool.server, tool.name) for tool in tools.values())
    text = writer.module([tools[each] for each in sorted(set(chosen))], identifiers).encode()
    usage = isolated(tools[chosen[0]], lambda tool: writer.usage(tool, identifiers))
    return Module(text, hashlib.sha256(text).hexdigest()[:32], usage)
