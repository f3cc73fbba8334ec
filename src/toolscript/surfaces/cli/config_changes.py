"""Changes a configuration file for a command, then shows the state of its servers."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from toolscript.config.entry import REASON
from toolscript.config.file_parser import keys_of, parsed
from toolscript.config.locations import FILE_NAME, home_file, project_file
from toolscript.config.secret_store import SecretStore
from toolscript.config.servers import Config, config_of
from toolscript.config.settings import PathSettings, load_settings
from toolscript.config.trust import ProjectFile, TrustStore, read_file
from toolscript.errors import ConfigUntrustedError, InputError
from toolscript.storage.atomic_files import may_exist, resolved
from toolscript.storage.reversible_writes import replace_file
from toolscript.surfaces.cli.connect import connected
from toolscript.surfaces.cli.gateway_client import Client
from toolscript.surfaces.cli.output import count_held
from toolscript.text.display import counted, printable
from toolscript.text.json_values import as_object

_POLL_S = 0.1

project_option = click.option(
    "--project", is_flag=True, help="Change the project's .toolscript.json instead of yours."
)


class ConfigFile:
    """A configuration file of the user's that a command changes.

    Args:
        paths: Name the file, if the user did, and the data directory.
        project: Whether it is the project's file, else the user's.
    """

    def __init__(self, paths: PathSettings, *, project: bool) -> None:
        self._project, self._trust = project, TrustStore(paths.data_dir)
        own = paths.config.absolute() if paths.config else home_file(os.environ)
        here = Path.cwd()
        self.path = (project_file(here, os.environ) or here / FILE_NAME) if project else own
        self.exists = may_exist(self.path)
        self.data = read_file(self.path)[0] if self.exists else b""
        document = parsed(self.path, self.data) if self.data.strip() else {}
        self.places = keys_of(document)
        """The keys on the way to each server's entry, by name."""
        self._document = document

    def entry(self, server: str) -> tuple[tuple[str, ...], dict[str, Any] | None]:
        """Returns the keys on the way to a server's entry, and the entry.

        The entry is None if there is none: its keys are then those for a new one.
        """
        keys = self.places.get(server)
        if keys is None:
            others = (place[:-1] for place in self.places.values())
            return (*next(others, ("mcpServers",)), server), None
        entry: Any = self._document
        for key in keys:
            entry = entry[key]
        return keys, as_object(entry)

    def read(self, data: bytes) -> Config:
        """Returns the configuration that a content of the file is; raises `ConfigError`."""
        base = self.path.parent if self._project else None
        version = SecretStore(self._trust.data_dir).version
        return config_of(self.path, data, os.environ, base, version)

    def check(self, data: bytes, server: str) -> None:
        """Raises `InputError` if the entry of a server cannot be used, `ConfigError` for the rest.

        Args:
            data: The content that the file is to have.
            server: The server's name.
        """
        config = self.read(data)
        for problem in config.problems:
            if problem.server == server:
                raise InputError(f"server {server!r}: {problem.message}; nothing was written")
        if REASON in config.unread.get(server, ()):
            raise InputError(f"server {server!r}: {REASON}; nothing was written")

    def replace(self, data: bytes) -> None:
        """Replaces the content. A project's file stays trusted if it was, or is new.

        Keeps a link in its place. Raises `InputError` if it may not be written, or another program
        has changed it meanwhile.
        """
        was_trusted = self._project and (not self.exists or self._is_trusted())
        before = self.data if self.exists else None
        if reason := replace_file(resolved(self.path), before, data):
            raise InputError(f"{self.path} was not changed: {reason}")
        if was_trusted:
            file = ProjectFile.read(self.path)
            if file.data == data and not file.flaw:
                self._trust.decide(file, trusted=True)

    def _is_trusted(self) -> bool:
        try:
            return self._trust.read(self.path) == self.data
        except ConfigUntrustedError:
            return False


def report(flags: Mapping[str, Any], *servers: str) -> None:
    """Prints how servers are doing after a change, once they have connected or failed.

    Args:
        flags: The options of the command; see `load_settings`.
        servers: The names of the servers.
    """
    patience_s = load_settings(flags).gateway.connect_timeout_s
    with connected(flags, embed=False) as client:
        statuses = _await_states(client, servers, patience_s)
    for name in servers:
        click.echo(printable(f"{name}: {_describe(statuses.get(name))}"))


def _await_states(client: Client, names: tuple[str, ...], patience_s: float) -> dict[str, Any]:
    """Returns the states of servers, once none is connecting or the patience is over."""
    while True:
        listed = client.get("/servers")["servers"]
        statuses = {each["name"]: each for each in listed if each["name"] in names}
        patience_s -= _POLL_S
        if patience_s <= 0 or all(each["state"] != "connecting" for each in statuses.values()):
            return statuses
        client.wait(_POLL_S)


def _describe(server: dict[str, Any] | None) -> str:
    """Returns how a server is doing; None is one that this folder's configuration lacks."""
    if server is None:
        return "not used here; if its file is a project's, see: toolscript trust"
    state, error = server["state"], server["error"]
    tools = [counted(server["tools"], "tool")] if state in {"ready", "resting"} else []
    return "; ".join(filter(None, [state, *tools, count_held(server), error]))
