"""Makes the modules of typed tools, in TypeScript or Python, and caches the latest."""

import hashlib
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from toolscript.codegen import python, typescript
from toolscript.codegen.identifiers import Identifiers
from toolscript.types import ToolSpec

Language: TypeAlias = Literal["ts", "py"]
LANGUAGES: tuple[Language, ...] = ("ts", "py")
MAX_CACHED_MODULES, MAX_CACHED_BYTES = 32, 64_000_000
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


class Clients:
    """Makes modules of the tools of one catalogue. Thread-safe."""

    def __init__(self, tools: Mapping[str, ToolSpec]) -> None:
        self._tools = tools
        self._identifiers = Identifiers((tool.server, tool.name) for tool in tools.values())
        self._modules: dict[ModuleRequest, Module] = {}

    def cached(self, request: ModuleRequest) -> Module | None:
        """Returns the module if it was made before."""
        return self._modules.get(request)

    def module(self, request: ModuleRequest) -> Module:
        """Returns the module; the request must name at least one tool, and only known ones."""
        if module := self._modules.get(request):
            return module
        tools = [self._tools[identifier] for identifier in sorted(set(request.tools))]
        writer = _WRITERS[request.language]
        text = writer.module(tools, self._identifiers, compact=request.compact).encode()
        usage = writer.usage(self._tools[request.tools[0]], self._identifiers)
        ids = tuple(tool.id for tool in tools)
        module = Module(text, hashlib.sha256(text).hexdigest()[:32], usage, ids)
        modules = {**self._modules, request: module}
        while (
            len(modules) > MAX_CACHED_MODULES
            or sum(len(m.text) for m in modules.values()) > MAX_CACHED_BYTES
        ):
            del modules[next(iter(modules))]
        self._modules = modules
        return module
