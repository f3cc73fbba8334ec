"""Changes a server's tools as the configuration repairs them.

The server's own definitions stay beside the repaired ones: they are stored, compared and pinned.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET

from toolscript.gateway.definitions.comparison import HeldTool
from toolscript.text.display import printable
from toolscript.text.json_values import as_list, as_object
from toolscript.types import Repair, ToolSpec


@dataclass(frozen=True, slots=True)
class RepairedTools:
    """The tools of one server as callers see them."""

    tools: tuple[ToolSpec, ...]
    held: tuple[HeldTool, ...]
    problems: tuple[str, ...] = ()
    """A line for each repair, or part of one, that cannot be applied."""


def repair_tools(
    tools: tuple[ToolSpec, ...], held: tuple[HeldTool, ...], repairs: Mapping[str, Repair]
) -> RepairedTools:
    """Returns a server's tools with their repairs.

    Args:
        tools: Those that were accepted, as the server lists them.
        held: Those that wait for approval.
        repairs: By the server's names of the tools.
    """
    if not repairs:
        return RepairedTools(tools, held)
    own = {tool.name: tool for tool in (*(each.tool for each in held), *tools)}
    usable, problems = _choose(own, repairs)
    for name, repair in usable.items():
        problems += _find_unknown(own[name], repair)
    return RepairedTools(
        tuple(_repair(tool, usable.get(tool.name)) for tool in tools),
        tuple(
            msgspec.structs.replace(each, tool=_repair(each.tool, usable.get(each.tool.name)))
            for each in held
        ),
        tuple(problems),
    )


def _choose(
    own: Mapping[str, ToolSpec], repairs: Mapping[str, Repair]
) -> tuple[dict[str, Repair], list[str]]:
    """Returns the repairs of tools that exist, but for names that two tools would have."""
    problems = [
        f"tools names {printable(name, 80)!r}, which the server does not offer"
        for name in repairs
        if name not in own
    ]
    usable = {name: repair for name, repair in repairs.items() if name in own}
    while True:
        names = Counter(usable[each].name or each if each in usable else each for each in own)
        renamed = {name: repair.name for name, repair in usable.items() if repair.name}
        twice = {name: other for name, other in renamed.items() if names[other] > 1}
        if not twice:
            return usable, problems
        for name, other in twice.items():
            del usable[name]
            place = f"tools.{printable(name, 80)}"
            problems.append(f"{place} is left out: two tools would have the name {other}")


def _find_unknown(tool: ToolSpec, repair: Repair) -> Iterator[str]:
    known = as_object(tool.input_schema.get("properties"))
    for name in (name for name in repair.arguments if name not in known):
        place = f"tools.{printable(tool.name, 80)}.arguments"
        yield f"{place} names {printable(name, 80)!r}, which the tool does not take"


def _repair(tool: ToolSpec, repair: Repair | None) -> ToolSpec:
    if repair is None:
        return tool
    known = as_object(tool.input_schema.get("properties"))
    arguments = {name: each for name, each in repair.arguments.items() if name in known}
    hints = {**(tool.annotations or {}), **repair.annotations}
    return msgspec.structs.replace(
        tool,
        name=repair.name or tool.name,
        title=repair.title or tool.title,
        description=repair.description or tool.description,
        input_schema=_schema(
            tool.input_schema, msgspec.structs.replace(repair, arguments=arguments)
        ),
        annotations=hints or None,
        repair=msgspec.structs.replace(repair, arguments=arguments),
        own=tool,
    )


def _schema(schema: dict[str, Any], repair: Repair) -> dict[str, Any]:
    """Returns an input schema without fixed arguments, and with defaults and descriptions."""
    properties = dict(as_object(schema.get("properties")))
    optional: set[object] = set()
    for name, argument in repair.arguments.items():
        if argument.value is not UNSET:
            del properties[name]
            optional.add(name)
            continue
        more: dict[str, Any] = {}
        if argument.description:
            more["description"] = argument.description
        if argument.default is not UNSET:
            more["default"] = argument.default
            optional.add(name)
        properties[name] = {**as_object(properties[name]), **more}
    if not repair.arguments:
        return schema
    left = [name for name in as_list(schema.get("required")) if name not in optional]
    changed = {**schema, "properties": properties, "required": left}
    return changed if left else {k: v for k, v in changed.items() if k != "required"}
