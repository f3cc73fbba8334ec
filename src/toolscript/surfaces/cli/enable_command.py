"""``toolscript enable`` and ``toolscript disable``."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import click

from toolscript.config.file_editor import REMOVED, edit
from toolscript.config.known_keys import EXCLUDE_KEYS, SWITCH_KEYS
from toolscript.config.locations import switches_file
from toolscript.config.servers import Config
from toolscript.config.settings import load_settings
from toolscript.config.switches import read_switches, without, write_switches
from toolscript.errors import InputError, UnknownNameError
from toolscript.storage.atomic_files import check_owner, locked
from toolscript.surfaces.cli.config_changes import ConfigFile, project_option, report
from toolscript.surfaces.cli.connect import connected
from toolscript.surfaces.cli.options import settings_options
from toolscript.surfaces.server.config_sources import load
from toolscript.types import SEPARATOR, as_id
from toolscript.types.patterns import matches, specificity_of

_NAME = "SERVER[__TOOL]"
_Edit: TypeAlias = tuple[Sequence[str], Any]


@click.command()
@click.argument("name", metavar=_NAME)
@project_option
@settings_options("config", "data_dir")
def disable(name: str, project: bool, **flags: Any) -> None:
    """Turn a server or tools off: nobody finds, lists or calls them.

    You may use patterns, such as 'github__delete_*'. Your configuration stays as it is;
    a running gateway follows at once. Undo it with: toolscript enable.
    """
    _turn(as_id(name), flags, on=False, project=project)


@click.command()
@click.argument("name", metavar=_NAME)
@project_option
@settings_options("config", "data_dir")
def enable(name: str, project: bool, **flags: Any) -> None:
    """Turn a server or tools on again, also a server that your configuration disables.

    You may use patterns, such as 'github__*'. A running gateway follows at once.
    """
    _turn(as_id(name), flags, on=True, project=project)


def _turn(pattern: str, flags: Mapping[str, Any], *, on: bool, project: bool) -> None:
    """Turns servers or tools on or off, in the data directory or in the project's file."""
    paths = load_settings(flags).paths
    config = load(paths)
    source = config.sources[0]
    names = [*(spec.name for spec in config.servers), *(each.server for each in config.problems)]
    servers = [name for name in names if matches(name, (pattern.partition(SEPARATOR)[0],))]
    if not servers:
        _refuse("server", pattern.partition(SEPARATOR)[0], names, "see: toolscript list-servers")
    if SEPARATOR in pattern and not (project and on):
        _check_tools(pattern, flags, servers, read_switches(paths.data_dir, source), on=on)
    if project:
        _turn_in_file(ConfigFile(paths, project=True), pattern, servers, on=on)
    else:
        check_owner(paths.data_dir)
        lock = switches_file(paths.data_dir, source).with_suffix(".lock")
        with locked(lock):
            switches = without(read_switches(paths.data_dir, source), pattern)
            write_switches(paths.data_dir, source, switches | ({} if on else {pattern: False}))
            if on and _is_off(pattern, switches, load(paths)):
                write_switches(paths.data_dir, source, switches | {pattern: True})
    report(flags, *servers)


def _is_off(pattern: str, switches: Mapping[str, bool], config: Config) -> bool:
    """Whether something that a pattern covers is off by another switch, or by its entry."""
    if SEPARATOR in pattern:
        return any(not on and matches(pattern, (other,)) for other, on in switches.items())
    return any(spec.disabled and matches(spec.name, (pattern,)) for spec in config.servers)


def _check_tools(
    pattern: str,
    flags: Mapping[str, Any],
    servers: Sequence[str],
    switches: Iterable[str],
    *,
    on: bool,
) -> None:
    """Raises `UnknownNameError` if no tool, and no switch, is the one that a pattern is about.

    If no server works, its tools may not be known. A pattern turns on only the tools that a switch
    has turned off which it covers, or which covers it.
    """
    with connected(flags, embed=False) as client:
        tools = [tool["toolId"] for tool in client.get("/tools")["tools"]]
        listed = client.get("/servers")["servers"]
    known = [*switches] if on and not specificity_of(pattern)[0] else [*tools, *switches]
    is_known = any(matches(each, (pattern,)) or matches(pattern, (each,)) for each in known)
    works = {each["name"] for each in listed if each["state"] in {"ready", "resting"}}
    if not is_known and works.intersection(servers):
        advice = "see: toolscript list-servers" if on else "see: toolscript list-tools"
        _refuse("switch" if on else "tool", pattern, known, advice)


def _refuse(kind: str, name: str, names: Sequence[str], advice: str) -> NoReturn:
    from toolscript.retrieval.lexical.spelling import not_known  # noqa: PLC0415 - seldom used

    raise UnknownNameError(not_known(kind, name, names, advice))


def _turn_in_file(file: ConfigFile, pattern: str, servers: Sequence[str], *, on: bool) -> None:
    """Writes ``disabled`` or ``excludeTools`` into the entries of a file."""
    edits: list[_Edit] = []
    tool = pattern.partition(SEPARATOR)[2]
    for name in servers:
        keys, entry = file.entry(name)
        if not tool:
            edits += _switch(keys, entry or {}, on=on)
        elif entry is not None:
            edits += _switch_tool(keys, entry, tool, on=on)
        else:
            raise InputError(f"{file.path} has no server {name!r}; leave --project out")
    file.replace(edit(file.path, file.data, edits))


def _switch(keys: tuple[str, ...], entry: dict[str, Any], *, on: bool) -> list[_Edit]:
    """Returns the edits that turn a server on or off; an entry that only turns it off goes."""
    if not on:
        return [((*keys, "disabled"), True)]
    off = [key for key, value in SWITCH_KEYS.items() if entry.get(key) is value]
    switches = [(*keys, key) for key in off] if len(off) < len(entry) else [keys]
    return [(each, REMOVED) for each in switches]


def _switch_tool(
    keys: tuple[str, ...], entry: dict[str, Any], tool: str, *, on: bool
) -> list[_Edit]:
    """Returns the edits that turn the tools of a pattern on or off, under one of the keys."""
    tools = [each for key in EXCLUDE_KEYS for each in entry.get(key) or ()]
    excluded = [each for each in tools if not matches(each, (tool,))] + ([] if on else [tool])
    edits: list[_Edit] = [((*keys, key), REMOVED) for key in EXCLUDE_KEYS[1:]]
    return [*edits, ((*keys, EXCLUDE_KEYS[0]), excluded or REMOVED)]
