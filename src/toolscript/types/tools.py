"""Tools as their servers list them, and their ids."""

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Literal

import msgspec

from toolscript.errors import InputError
from toolscript.text.json_values import as_object
from toolscript.text.tool_class_guess import guess_class
from toolscript.text.wire_constants import PAGE_SCHEME, ToolClass
from toolscript.types.repairs import Repair
from toolscript.types.tool_definitions import tool_fields

SEPARATOR = "__"
"""Between server and tool in an id. No server's name contains it, so an id splits at the first."""
SKILLS = "skills"
"""The server that skills belong to in ids and grants."""
BUILTIN = "Vector"
"""The server that built-in tools belong to in ids and grants."""
Trust = Literal["pinned", "new", "changed"]
"""How a tool's definition came to be accepted: ``new`` and ``changed`` were, lately, unseen."""
ClassSource = Literal["config", "server", "guess"]
"""Who says of which class a tool is: the user, its server, or nobody, so that it is guessed."""


def tool_id(server: str, name: str) -> str:
    """Returns the id of a tool: ``server__tool``."""
    return f"{server}{SEPARATOR}{name}"


def skill_id(name: str) -> str:
    """Returns the id of a skill: ``skills__name``."""
    return tool_id(SKILLS, name)


def is_builtin(name: str) -> bool:
    """Whether a name has the form of a built-in tool's: ``Vector.SearchSkills``."""
    return name.startswith(f"{BUILTIN}.")


def as_id(name: str) -> str:
    """Returns ``server:tool``, or a pattern of that form, as an id; any other name as it is."""
    return name if SEPARATOR in name else name.replace(":", SEPARATOR, 1)


def split_tool_id(identifier: str) -> tuple[str, str]:
    """Returns the server and the name of a tool's id; raises `InputError` if it is no id."""
    server, separator, name = identifier.partition(SEPARATOR)
    if not (server and separator and name):
        raise InputError(f"{identifier!r} is no tool id; expected server{SEPARATOR}tool")
    return server, name


def sha256_of(value: Any) -> str:
    """Returns the SHA-256 of a value as JSON with sorted keys, in hex digits."""
    try:
        encoded = msgspec.json.encode(value, order="deterministic")
    except UnicodeEncodeError:  # an environment value that is no UTF-8
        encoded = json.dumps(value, sort_keys=True).encode()
    return hashlib.sha256(encoded).hexdigest()


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """A tool as its server lists it. Its id and its digest are computed once."""

    server: str
    """The server's name in the configuration."""
    name: str
    """Its name; the server has another one for a tool that the configuration renames."""
    title: str = ""
    """Its name for people."""
    description: str = ""
    """What it does, in words: most of what is searched."""
    input_schema: dict[str, Any] = {}
    """The JSON Schema of its arguments."""
    output_schema: dict[str, Any] | None = None
    """The JSON Schema of its structured result, where it has one."""
    annotations: dict[str, Any] | None = None
    """The server's hints, such as ``readOnlyHint``."""
    config_class: ToolClass | None = None
    """The class that the configuration gives it; no part of its definition."""
    meta: dict[str, Any] | None = None
    """The server's ``_meta``, for clients; no part of its definition."""
    icons: list[Any] | None = None
    """The server's pictures of it, for clients; no part of its definition."""
    repair: Repair | None = None
    """The repair that the other fields already have; None for a tool as its server lists it."""
    own: "ToolSpec | None" = None
    """The server's own definition of a repaired tool."""

    @classmethod
    def of(cls, source: Callable[..., Any] | Any, server: str = "tools") -> "ToolSpec":
        """Returns a function, or somebody's definition of a tool, as a tool of a server.

        Args:
            source: See `Document.of`.
            server: The server that it belongs to, unless it is a `ToolSpec`.

        Raises:
            InputError: It is no tool, or has no name.
        """
        return source if isinstance(source, cls) else cls(server=server, **tool_fields(source))

    @cached_property
    def id(self) -> str:
        """``server__tool``."""
        return tool_id(self.server, self.name)

    @property
    def original(self) -> "ToolSpec":
        """The tool as its server lists it, which gateways store, compare and pin."""
        return self.own or self

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments that the server gets if a caller has ``given`` these."""
        return self.repair.complete(dict(given)) if self.repair else dict(given)

    @property
    def is_for_models(self) -> bool:
        """Whether models may use it."""
        return not self.obstacle_for_models

    @property
    def obstacle_for_models(self) -> str:
        """The reason why models may not use it, which follows its id; empty if they may.

        MCP Apps have tools for their pages alone (SEP-1865); a name with blanks can be a sentence.
        """
        if " " in self.name:
            return "has blanks in its name"
        visibility = as_object((self.meta or {}).get("ui")).get("visibility")
        is_shown = not isinstance(visibility, list) or "model" in visibility
        return "" if is_shown else f"is for the page of {self.server}"

    @property
    def page(self) -> str:
        """The URI of the page of an MCP App that shows its results; empty if there is none."""
        uri = as_object((self.meta or {}).get("ui")).get("resourceUri")
        return uri if isinstance(uri, str) and uri.startswith(PAGE_SCHEME) else ""

    @property
    def class_source(self) -> ClassSource:
        """Who says of which class it is."""
        if self.config_class is not None:
            return "config"
        hints = self.annotations or {}
        stated = (hints.get("readOnlyHint"), hints.get("destructiveHint"))
        return "guess" if stated == (None, None) else "server"

    @cached_property
    def tool_class(self) -> ToolClass:
        """What a call may do at most, by the configuration, its server's hints, or its name.

        One hint without the other has the protocol's default: a tool that writes may destroy.
        """
        if self.class_source == "guess":
            return guess_class(self.server, self.name, self.input_schema)
        hints = self.annotations or {}
        stated = "write" if hints.get("destructiveHint") is False else "destructive"
        return self.config_class or ("read" if hints.get("readOnlyHint") is True else stated)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the definition: a changed description or schema changes it."""
        fields = msgspec.to_builtins(self)
        for name in ("config_class", "meta", "icons", "own"):
            fields.pop(name, None)
        return sha256_of(fields)
