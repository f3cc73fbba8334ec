"""Merges the servers of several clients, and computes the new content of each file.

Nothing is written here: the plan of `toolscript setup` is a value that a user can look at.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from toolscript.config.client_servers import ClientServer
from toolscript.config.clients import ClientFile
from toolscript.config.file_editor import REMOVED, edit
from toolscript.config.file_parser import SECTIONS, parsed
from toolscript.config.imported_rules import settle
from toolscript.config.variables import has_variable
from toolscript.errors import ConfigSyntaxError
from toolscript.text.json_values import as_list, as_object
from toolscript.text.secret_detection import (
    argument_secrets,
    named_secrets,
    program_indexes,
    url_secrets,
)
from toolscript.text.secret_shapes import AUTH_SCHEMES, SECRET_NAME

_WORD = re.compile(r"[A-Za-z]+(?:[-_][A-Za-z]+)*")
_VARIABLE = re.compile(
    r"(?i)(?:(?:bearer|basic|token) )?(?:\$\{(?:(?!:-)[^{}])+\}|\{(?:env|file):[^{}]+\})"
)
"""A value that only names a secret; a default would be one."""
_NO_SECRETS = {"args", "command", "cwd", "type", "transport", "protocol"}
"""Keys of an entry whose values as a whole are no secrets."""


@dataclass(frozen=True, slots=True)
class PlannedServer:
    """A server of one or several clients, under one name in toolscript's file."""

    name: str
    servers: tuple[ClientServer, ...]
    """All that are equal; the first one is written."""
    known: ClientServer | None = None
    """The same in toolscript's own file, if that has it already."""

    @property
    def is_takable(self) -> bool:
        """Whether toolscript can read it, and is not itself."""
        return self.servers[0].spec is not None and not self.servers[0].is_toolscript

    @property
    def is_off(self) -> bool:
        """Whether all clients have it switched off."""
        return all(server.is_off for server in self.servers)

    @property
    def state(self) -> str:
        """One word for a table."""
        if not self.is_takable:
            return "itself" if self.servers[0].is_toolscript else "stays"
        return "known" if self.known else "off" if self.is_off else "new"

    @property
    def rules(self) -> dict[str, Any]:
        """The rules for its tools: of different ones the strictest; all clients have to allow."""
        stated = [server.rules for server in self.servers]
        shared = {key for key in stated[0] if all(each.get(key) == "allow" for each in stated)}
        pairs = (pair for each in stated for pair in each.items())
        strict = settle(pair for pair in pairs if pair[1] != "allow" or pair[0] in shared)
        return stated[0] if all(each == stated[0] for each in stated) else strict

    @property
    def entry(self) -> dict[str, Any]:
        """The entry for toolscript's file; off only if all clients have it off."""
        first, changed = self.servers[0].entry.items(), {"disabled", "permissions"}
        return {
            **{key: value for key, value in first if key not in changed},
            **({"permissions": self.rules} if self.rules else {}),
            **({"disabled": True} if self.is_off else {}),
        }

    @property
    def missing_rules(self) -> list[tuple[tuple[str, ...], Any]]:
        """The rules that toolscript's file lacks about a known server: edits of the file."""
        if self.known is None:
            return []
        place, ours = (*self.known.keys, "permissions"), self.known.rules
        rules = [pair for pair in self.rules.items() if pair[1] != "allow"]
        return [((*place, key), each) for key, each in rules if ours.get(key) not in {each, "deny"}]


def merge(own: Iterable[ClientServer], others: Iterable[ClientServer]) -> list[PlannedServer]:
    """Returns the servers of clients: equal ones once, different ones under different names.

    Args:
        own: The servers of toolscript's file, whose names stay.
        others: Those of the clients, in the order in which they count.
    """
    own = [*own]
    known = {server.identity: server for server in own}
    names = {"toolscript", *(server.name.casefold() for server in own)}
    planned: dict[str, PlannedServer] = {}
    for server in others:
        key = server.identity if server.spec else repr((server.client, server.keys))
        same = known.get(key)
        same = planned.get(key) or PlannedServer(same.name if same else "", (), same)
        plan = replace(same, servers=(*same.servers, server))
        if not plan.name:
            plan = replace(plan, name=_free_name(server, names) if plan.is_takable else server.name)
            names |= {plan.name.casefold()} if plan.is_takable else set()
        planned[key] = plan
    return [*planned.values()]


def _free_name(server: ClientServer, names: set[str]) -> str:
    """Returns a server's name, with the client's and a number if another server has it."""
    client = server.client.name if server.client else ""
    numbered = (f"{server.name}-{client}-{number}" for number in range(2, len(names) + 3))
    candidates = (server.name, f"{server.name}-{client}", *numbered)
    return next(name for name in candidates if name.casefold() not in names)


def move_secrets(
    name: str, entry: dict[str, Any], stored: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns an entry that names its secrets, and the values by these names.

    Args:
        name: The server's name.
        entry: Its entry. Every value of ``env`` and ``headers`` counts that may be secret.
        stored: The secrets that are there already; another value gets another name.
    """
    moved: dict[str, str] = {}
    result = dict(entry)
    for key in (key for key in ("env", "headers") if isinstance(entry.get(key), dict)):
        for variable, value in entry[key].items():
            if not isinstance(value, str) or has_variable(value):
                continue
            if not [*named_secrets(variable, value)]:
                continue
            scheme, _, secret = value.partition(" ")
            before = f"{scheme} " if key == "headers" and scheme.casefold() in AUTH_SCHEMES else ""
            secret = secret if before else value
            secret_name = _secret_name(f"{name}_{variable}", secret, {**stored, **moved})
            moved[secret_name] = secret
            result[key] = {**result[key], variable: f"{before}${{secret:{secret_name}}}"}
    return result, moved


def _secret_name(text: str, value: str, taken: Mapping[str, str]) -> str:
    base = re.sub(r"[^A-Za-z0-9_.-]", "_", text)[:60]
    names = (base, *(f"{base}-{number}" for number in range(2, 999)))
    return next(name for name in names if taken.get(name, value) == value)


def add_servers(
    path: Path,
    data: bytes | None,
    entries: Mapping[str, dict[str, Any]],
    rules: Iterable[tuple[tuple[str, ...], Any]] = (),
) -> bytes:
    """Returns the content of toolscript's file with more servers and rules, or one without any.

    Raises `ConfigSyntaxError`.
    """
    data = data or b""
    section = next((key for key in SECTIONS if key in _document(path, data)), SECTIONS[0])
    edits = [*(((section, name), entry) for name, entry in entries.items()), *rules]
    return edit(path, data, edits or [((section,), {})])


def connect(
    path: Path,
    data: bytes | None,
    taken: Sequence[ClientServer],
    client: ClientFile,
    command: list[str] | None,
) -> bytes:
    """Returns the content of a client's file with toolscript in the place of some servers.

    Args:
        path: The file.
        data: Its content; None if there is no file.
        taken: The servers of this file that toolscript has now.
        client: Whose file it is.
        command: The program and its arguments that start toolscript; None if the file has it.

    Raises:
        ConfigSyntaxError: The file cannot be changed.
    """
    data = data or b""
    removed = [(server.keys, REMOVED) for server in taken]
    if command is None:
        return edit(path, data, removed)
    document = _document(path, data)
    keys, entry = client.entry(document, command)
    edits = [(keys, entry), *(each for each in removed if each[0] != keys)]
    place, file, tools = client.approvals
    if place and not file:
        section, _, name = place.partition(".")
        listed = as_list(as_object(document.get(section)).get(name))
        edits.append(((section, name), [*listed, *(each for each in tools if each not in listed)]))
    return edit(path, data, edits)


def add_hook(path: Path, data: bytes | None, command: str) -> bytes:
    """Returns Claude Code's settings with a command that runs at each prompt.

    Raises `ConfigSyntaxError` if the settings cannot be changed.
    """
    data = data or b""
    hooks: Any = _document(path, data).get("hooks", {})
    hooks = cast("dict[str, Any]", hooks) if isinstance(hooks, dict) else {"UserPromptSubmit": 0}
    listed: Any = hooks.get("UserPromptSubmit", [])
    if not isinstance(listed, list):
        raise ConfigSyntaxError(f"{path}: hooks.UserPromptSubmit is no list")
    hook = {"hooks": [{"type": "command", "command": command}]}
    if hook in listed:
        return data
    return edit(path, data, [(("hooks", "UserPromptSubmit"), [*listed, hook])])


def _document(path: Path, data: bytes) -> dict[str, Any]:
    return parsed(path, data) if data.strip() else {}


def find_secrets(servers: Iterable[ClientServer]) -> Iterator[str]:
    """Yields the texts in servers' entries that may be secret: no variable such as ``${KEY}``."""
    yield from (text for text in _values(servers) if not _VARIABLE.fullmatch(text))


def _values(servers: Iterable[ClientServer]) -> Iterator[str]:
    """Yields the values in servers' entries, but no program or plain word among arguments."""
    for server in servers:
        words = [str(word) for word in as_list(server.entry.get("args"))]
        command = str(server.entry.get("command"))
        yield from (each for each in argument_secrets(words, command) if not _WORD.fullmatch(each))
        programs = {*program_indexes(command, words)}  # docker run -e KEY image
        for index, (flag, value) in enumerate(pairwise(words), 1):
            is_named = SECRET_NAME.search(flag) and index not in programs
            yield from named_secrets(flag, value) if is_named else ()
        waiting: list[tuple[str, Any]] = [
            (key, value) for key, value in server.entry.items() if key not in _NO_SECRETS
        ]
        while waiting:
            key, value = waiting.pop()
            if isinstance(value, dict):
                waiting += cast("dict[str, Any]", value).items()
            elif isinstance(value, str):
                yield from (*url_secrets(value), *named_secrets(key, value))
