"""Switches: the servers and tools that the user has turned off, or on, by a command.

They are stored in the data directory, one file for each configuration, and override the
configuration, which stays as its owner wrote it. A server that is turned off counts as disabled. A
tool that is turned off is denied by a rule, as if the configuration had one, so its server keeps
running.
"""

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from toolscript.config.locations import switches_file
from toolscript.errors import ConfigSyntaxError
from toolscript.storage.atomic_files import write_atomically
from toolscript.types import SEPARATOR, PermissionRule
from toolscript.types.patterns import matches, matching_values

ORIGIN = "a switch"
"""The origin of the rules that switches make."""
_VERSION = 1


class _File(msgspec.Struct, frozen=True):
    version: int
    switches: dict[str, bool]


def read_switches(data_dir: Path, source: Path) -> dict[str, bool]:
    """Returns by patterns of servers and of tools' ids whether they are on; most often empty.

    Args:
        data_dir: The data directory.
        source: The first file of the configuration.

    Raises:
        ConfigSyntaxError: The file cannot be read. It might have turned something off.
    """
    path = switches_file(data_dir, source)
    try:
        file = msgspec.json.decode(path.read_bytes(), type=_File)
        if file.version == _VERSION:
            return file.switches
        reason = f"it has version {file.version}"
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        reason = str(error)
    raise ConfigSyntaxError(
        f"{path} cannot be read ({reason}); delete it to turn on again what it turned off"
    )


def write_switches(data_dir: Path, source: Path, switches: dict[str, bool]) -> None:
    """Replaces the switches of a configuration; raises `OSError`."""
    path = switches_file(data_dir, source)
    write_atomically(path, msgspec.json.encode(_File(_VERSION, switches)))


def without(switches: Mapping[str, bool], pattern: str) -> dict[str, bool]:
    """Returns the switches but for those that a pattern covers."""
    return {name: on for name, on in switches.items() if not matches(name, (pattern,))}


def switch_of(switches: Mapping[str, bool], server: str) -> bool | None:
    """Returns whether a server was turned on or off, by the most specific pattern; None if not."""
    values = ((specificity, not on) for specificity, on in matching_values(switches, server))
    strictest = max(values, default=None)
    return None if strictest is None else not strictest[1]


def switch_rules(switches: Mapping[str, bool]) -> tuple[PermissionRule, ...]:
    """Returns the rules that deny the tools that are turned off.

    A tool that is turned on only comes before a pattern that turns more off: nothing is decided
    about it, so no other rule becomes milder.
    """
    return tuple(
        PermissionRule(pattern, "allow" if on else "deny", None, ORIGIN, () if on else None)
        for pattern, on in switches.items()
        if SEPARATOR in pattern
    )


def switch_lines(
    switches: Mapping[str, bool], servers: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """Returns by server a line for each switch that is about it, with the way back."""
    lines = {
        server: tuple(
            f"{pattern} is turned {'on' if on else 'off'} (back: {way_back(pattern, on=on)})"
            for pattern, on in switches.items()
            if matches(server, (pattern.partition(SEPARATOR)[0],))
        )
        for server in servers
    }
    return {server: each for server, each in lines.items() if each}


def way_back(pattern: str, *, on: bool) -> str:
    """Returns the command that undoes a switch."""
    return f"toolscript {'disable' if on else 'enable'} {shlex.quote(pattern)}"
