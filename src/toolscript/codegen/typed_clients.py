"""Makes the modules of typed tools, in TypeScript or Python."""

import hashlib
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from toolscript.codegen import python, typescript
from toolscript.codegen.identifiers import Identifiers
from toolscript.types import ToolSpec

Language: TypeAlias = Literal["ts", "py"]
LANGUAGES: tuple[Language, ...] = ("ts", "py")
_WRITERS = {"ts": typescript, "py": python}


class ModuleRequest(msgspec.Struct, frozen=True):
    """Which tools a module is to have, by id; its usage example calls the first."""

    language: Language
    tools: tuple[str, ...]
    compact: bool = False


class Module(msgspec.Struct, frozen=True):
    """A generated module."""

    text: bytes
    """Its source in UTF-8."""
    etag: str
    """Changes with the text."""
    usage: str
    """A call of the first tool of the request."""
    tools: tuple[str, ...]
    """The ids of the tools in it, sorted."""


def make_module(tools: Mapping[str, ToolSpec], request: ModuleRequest) -> Module:
    """Returns a module of some of these tools; the request must name at least one of them."""
    identifiers = Identifiers((tool.server, tool.name) for tool in tools.values())
    wanted = [tools[identifier] for identifier in sorted(set(request.tools))]
    writer = _WRITERS[request.language]
    text = writer.module(wanted, identifiers, compact=request.compact).encode()
    usage = writer.usage(tools[request.tools[0]], identifiers)
    etag = hashlib.sha256(text).hexdigest()[:32]
    return Module(text, etag, usage, tuple(tool.id for tool in wanted))
