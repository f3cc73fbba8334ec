"""Stores the catalogue on disk, so that a search can answer before any server is connected."""

import logging
from collections.abc import Iterable
from pathlib import Path

import msgspec

from toolscript.gateway.catalogue import Catalogue, ServerEntry
from toolscript.storage.atomic_files import write_atomically, write_failure
from toolscript.types import ServerSpec, ServerState

log = logging.getLogger(__name__)
VERSION = 1
SETTLED: frozenset[ServerState] = frozenset({"ready", "failed"})
"""The states in which an entry is stored."""


class _SnapshotFile(msgspec.Struct, frozen=True):
    version: int
    servers: tuple[ServerEntry, ...]


class SnapshotStore:
    """One snapshot file per configuration. Holds nothing between calls."""

    def __init__(self, directory: Path, config_key: str) -> None:
        self.path = directory / f"catalogue-{config_key}.json"

    def load(self, specs: Iterable[ServerSpec]) -> Catalogue:
        """Returns the stored entries of these servers, unless their configuration has changed."""
        digests = {spec.name: spec.digest for spec in specs if not spec.disabled}
        return Catalogue.of(e for e in self.entries() if digests.get(e.name) == e.digest)

    def save(self, catalogue: Catalogue) -> None:
        """Replaces the file by the settled entries; a failure is logged.

        A server that is connecting keeps the entry that the file has.
        """
        settled = {e.name: e for e in catalogue.servers.values() if e.state in SETTLED}
        others = {e.name: e.digest for e in catalogue.servers.values() if e.name not in settled}
        stored = self.entries() if others else ()
        try:
            self.replace(
                (*settled.values(), *(e for e in stored if others.get(e.name) == e.digest))
            )
        except OSError as error:
            message = "catalogue snapshot %s cannot be written: %s"
            log.warning(message, self.path, error.strerror or error, extra=write_failure(error))

    def replace(self, entries: Iterable[ServerEntry]) -> None:
        """Replaces the file by these entries; raises `OSError`."""
        servers = tuple(sorted(entries, key=lambda entry: entry.name))
        write_atomically(self.path, msgspec.json.encode(_SnapshotFile(VERSION, servers)))

    def entries(self) -> tuple[ServerEntry, ...]:
        """Returns every stored entry; none if the file cannot be used, which is logged."""
        try:
            file = msgspec.json.decode(self.path.read_bytes(), type=_SnapshotFile)
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            log.warning("catalogue snapshot %s is not usable: %s", self.path, error)
            return ()
        return file.servers if file.version == VERSION else ()
