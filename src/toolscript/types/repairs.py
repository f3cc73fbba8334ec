"""Types for the repairs that a configuration makes to tools: names, texts, arguments, hints."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from toolscript.text.wire_constants import TOOL_CLASSES, ToolClass

_NAME_CHARS = "up to 128 letters, digits, '_', '-', '.' and '/'"


class ArgumentRepair(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One argument of a tool."""

    value: Any | UnsetType = UNSET
    """Sent with each call; the argument is not in the schema then."""
    default: Any | UnsetType = UNSET
    """Sent with each call that leaves the argument out, which need not have it then."""
    description: str = ""
    """Replaces the server's; empty keeps it."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for both values."""
        if self.value is not UNSET and self.default is not UNSET:
            raise ValueError("has both value and default; keep the one that is meant")


class Repair(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool's other name, texts, arguments and hints. An empty field stays the server's."""

    name: Annotated[str, Meta(pattern="^[A-Za-z0-9_./-]{0,128}\\Z", description=_NAME_CHARS)] = ""
    title: str = ""
    description: str = ""
    arguments: dict[str, ArgumentRepair] = {}
    """Repairs of arguments, by their names."""
    annotations: dict[str, Any] = {}
    """Added to the server's, or in their place."""

    @property
    def tool_class(self) -> ToolClass | None:
        """The class that its hints stand for; None if it has none."""
        hints = self.annotations
        if hints.get("readOnlyHint") is True:
            return TOOL_CLASSES[0]
        if hints.get("destructiveHint") is False:
            return TOOL_CLASSES[1]
        return TOOL_CLASSES[2] if {"readOnlyHint", "destructiveHint"} & hints.keys() else None

    def complete(self, given: dict[str, Any]) -> dict[str, Any]:
        """Returns the arguments that the server gets of a call with these."""
        stated = self.arguments.items()
        defaults = {name: each.default for name, each in stated if each.default is not UNSET}
        fixed = {name: each.value for name, each in stated if each.value is not UNSET}
        return {**defaults, **given, **fixed}
