"""Clients: the modules of one catalogue, each made once."""

import hashlib
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from toolscript.codegen import python, typescript
from toolscript.codegen.identifiers import Names
from toolscript.types import ToolSpec

Language: TypeAlias = Literal["ts", "py"]
LANGUAGES: tuple[Language, ...] = ("ts", "py")
MAX_KEPT = 32
"""Modules that are remembered: the latest."""
MAX_KEPT_BYTES = 64_000_000
_WRITERS = {"ts": typescript, "py": python}


class Wanted(msgspec.Struct, frozen=True):
    """Which module: of these tools, in the order in which they were asked for."""

    language: Language
    tools: tuple[str, ...]
    compact: bool = False


class Module(msgspec.Struct, frozen=True):
    """The text of a module in UTF-8, a tag that changes with it, and how to call its first tool."""

    text: bytes
    etag: str
    usage: str
    tools: tuple[str, ...]
    """The ids of the tools in it."""


class Clients:
    """Makes the modules of these tools, by id and in the order of their ids. Thread-safe."""

    def __init__(self, tools: Mapping[str, ToolSpec]) -> None:
        self._tools = tools
        self._names = Names((tool.server, tool.name) for tool in tools.values())
        self._kept: dict[Wanted, Module] = {}

    def kept(self, wanted: Wanted) -> Module | None:
        """The module, if it was made before."""
        return self._kept.get(wanted)

    def module(self, wanted: Wanted) -> Module:
        """The module. Every id must be one of the tools, and there must be one."""
        known = self._kept.get(wanted)
        if known is None:
            known = self._made(wanted)
            self._keep(wanted, known)
        return known

    def _made(self, wanted: Wanted) -> Module:
        tools = [self._tools[identifier] for identifier in sorted(set(wanted.tools))]
        writer = _WRITERS[wanted.language]
        text = writer.module(tools, self._names, compact=wanted.compact).encode()
        usage = writer.usage(self._tools[wanted.tools[0]], self._names)
        ids = tuple(tool.id for tool in tools)
        return Module(text, hashlib.sha256(text).hexdigest()[:32], usage, ids)

    def _keep(self, wanted: Wanted, made: Module) -> None:
        kept = {**self._kept, wanted: made}
        while len(kept) > MAX_KEPT or sum(len(m.text) for m in kept.values()) > MAX_KEPT_BYTES:
            del kept[next(iter(kept))]
        self._kept = kept
