"""``toolscript enable`` and ``toolscript disable``: they change keys of a configuration file."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import click

from toolscript.config.entry_aliases import SWITCH_KEYS, spellings
from toolscript.config.file_editor import REMOVED, edit
from toolscript.config.settings import load_settings
from toolscript.errors import InputError, UnknownNameError
from toolscript.surfaces.cli.config_changes import ConfigFile, project_option, report
from toolscript.surfaces.cli.connect import connected
from toolscript.surfaces.cli.options import settings_options
from toolscript.surfaces.cli.output import note
from toolscript.surfaces.server.config_sources import load
from toolscript.text.json_values import as_list
from toolscript.types import SEPARATOR, as_id
from toolscript.types.patterns import matches, specificity_of

_NAMES = "SERVER[__TOOL]..."
_LISTS = spellings("excludeTools")
"""The keys at which an entry may have a list of tools that are off."""
_Edit: TypeAlias = tuple[Sequence[str], Any]


@click.command()
@click.argument("names", metavar=_NAMES, nargs=-1, required=True)
@project_option
@settings_options("config", "data_dir")
def disable(names: tuple[str, ...], project: bool, **flags: Any) -> None:
    """Turn a server or tools off: nobody finds, lists or calls them.

    You may use patterns, such as 'github__delete_*'. Your file says so afterwards, with
    "disabled" or "excludeTools"; a running gateway follows at once.
    """
    for name in map(as_id, names):
        _turn(name, flags, on=False, project=project)


@click.command()
@click.argument("names", metavar=_NAMES, nargs=-1, required=True)
@project_option
@settings_options("config", "data_dir")
def enable(names: tuple[str, ...], project: bool, **flags: Any) -> None:
    """Turn a server or tools on again.

    You may use patterns, such as 'github__*'. A running gateway follows at once.
    """
    for name in map(as_id, names):
        _turn(name, flags, on=True, project=project)


def _turn(pattern: str, flags: Mapping[str, Any], *, on: bool, project: bool) -> None:
    """Turns servers or tools on or off in the user's file, or in the project's."""
    paths = load_settings(flags).paths
    config = load(paths)
    file = ConfigFile(paths, project=project)
    server, _, tool = pattern.partition(SEPARATOR)
    names = [*(spec.name for spec in config.servers), *(each.server for each in config.problems)]
    servers = [name for name in names if matches(name, (server,))]
    if not servers:
        _refuse("server", server, names, "see: toolscript list-servers")
    if not project and config.sources[0] != file.path:
        servers = _without_theirs(servers, ConfigFile(paths, project=True))
    if tool:
        tool = _find_tool(pattern, flags, servers, file)
    edits = [each for name in servers for each in _edits(file, name, tool, on=on, project=project)]
    data = edit(file.path, file.data, edits)
    if on:
        _check_effect(file, data, servers, tool)
    file.replace(data)
    report(flags, *servers)


def _without_theirs(servers: Sequence[str], theirs: ConfigFile) -> list[str]:
    """Returns the servers that a project's file does not state; tells of the others."""
    mine = [name for name in servers if name not in theirs.places]
    reasons = [
        f"the project's {theirs.path} states {name!r}; change it with --project"
        for name in servers
        if name not in mine
    ]
    if not mine:
        raise InputError("; ".join(reasons))
    for each in reasons:
        note(each)
    return mine


def _find_tool(
    pattern: str, flags: Mapping[str, Any], servers: Sequence[str], file: ConfigFile
) -> str:
    """Returns the name or pattern of tools as their servers call them.

    Raises `UnknownNameError` if it names no tool, and none that a file turns off. If no server
    works, its tools may not be known.
    """
    with connected(flags, embed=False) as client:
        tools = {tool["toolId"]: tool.get("ownName") for tool in client.get("/tools")["tools"]}
        listed = client.get("/servers")["servers"]
    known = [*tools, *(f"{name}{SEPARATOR}{each}" for name in servers for each in _off(file, name))]
    works = {each["name"] for each in listed if each["state"] in {"ready", "resting"}}
    is_known = any(matches(each, (pattern,)) or matches(pattern, (each,)) for each in known)
    if not is_known and works.intersection(servers):
        _refuse("tool", pattern, known, "see: toolscript list-tools")
    return tools.get(pattern) or pattern.partition(SEPARATOR)[2]


def _off(file: ConfigFile, server: str) -> list[str]:
    entry = file.entry(server)[1] or {}
    return [str(each) for key in _LISTS for each in as_list(entry.get(key))]


def _refuse(kind: str, name: str, names: Sequence[str], advice: str) -> NoReturn:
    from toolscript.retrieval.lexical.spelling import not_known  # noqa: PLC0415 - seldom used

    raise UnknownNameError(not_known(kind, name, names, advice))


def _edits(file: ConfigFile, server: str, tool: str, *, on: bool, project: bool) -> Iterator[_Edit]:
    """Yields the edits of a server's entry; one that only turns a server off goes again."""
    keys, entry = file.entry(server)
    if entry is None and (on or tool or not project):
        raise InputError(f"{file.path} has no entry {server!r} to change")
    entry = entry or {}
    if tool:
        yield from _tool_edits(keys, entry, tool, on=on)
    elif not on:
        yield (*keys, "disabled"), True
    else:
        off = [key for key, value in SWITCH_KEYS.items() if entry.get(key) is value]
        places = [(*keys, key) for key in off] if len(off) < len(entry) else [keys]
        yield from ((place, REMOVED) for place in places)


def _tool_edits(
    keys: tuple[str, ...], entry: dict[str, Any], tool: str, *, on: bool
) -> Iterator[_Edit]:
    """Yields the edits of the lists of tools that are off, under the keys that the entry has."""
    lists = [key for key in _LISTS if key in entry] or [_LISTS[0]]
    for key in lists:
        listed = as_list(entry.get(key))
        left = [each for each in listed if not matches(str(each), (tool,))]
        left += [tool] if not on and key == lists[0] else []
        yield (*keys, key), left or REMOVED


def _check_effect(file: ConfigFile, data: bytes, servers: Sequence[str], tool: str) -> None:
    """Raises `InputError` if something else in a file's new content keeps these off."""
    for spec in (each for each in file.read(data).servers if each.name in servers):
        if not tool and spec.disabled:
            raise InputError(f"{file.path} turns {spec.name!r} off in a list; edit it yourself")
        if tool and specificity_of(tool)[0] and not (spec.disabled or spec.offers(tool)):
            raise InputError(
                f"includeTools or excludeTools of {spec.name!r} in {file.path} keeps {tool!r} off; "
                "edit it yourself"
            )
