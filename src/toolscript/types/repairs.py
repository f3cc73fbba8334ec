"""Types for the repairs that a configuration makes to tools: names, texts, arguments, hints."""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType


class ArgumentRepair(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One argument of a tool."""

    value: Any | UnsetType = UNSET
    """Sent with each call; the argument is not in the schema then."""
    default: Any | UnsetType = UNSET
    """Sent with each call that leaves the argument out, which need not have it then."""
    description: str = ""
    """Replaces the server's; empty keeps it."""


class Repair(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool's other name, texts, arguments and hints. An empty field stays the server's."""

    name: str = ""
    title: str = ""
    description: str = ""
    arguments: dict[str, ArgumentRepair] = {}
    """Repairs of arguments, by their names."""
    annotations: dict[str, Any] = {}
    """Added to the server's, or in their place."""

    def complete(self, given: dict[str, Any]) -> dict[str, Any]:
        """Returns the arguments that the server gets of a call with these."""
        stated = self.arguments.items()
        defaults = {name: each.default for name, each in stated if each.default is not UNSET}
        fixed = {name: each.value for name, each in stated if each.value is not UNSET}
        return {**defaults, **given, **fixed}
