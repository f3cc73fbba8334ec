"""The file by which commands find the running gateway, and the lock that shows that it runs.

The system frees the lock with the process, however that ends. Every command reads the file, so
this module has no heavy imports.
"""

import json
import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from toolscript.errors import GatewayRunningError
from toolscript.storage.atomic_files import is_file, locked, write_atomically

OPEN = "open: every user and program of this machine may search and call"
"""Says who is admitted by a gateway that was started with ``--open``, while there is no token."""
CLOSED = "no token: a gateway answers only your own commands, unless it was started with --open"
_PATIENCE_S = 1.0
"""Longer than a command holds the lock to see whether a gateway runs."""


@dataclass(frozen=True, slots=True)
class GatewayRecord:
    """The address of a gateway, and the options it was started with."""

    url: str
    pid: int
    version: str
    model: str
    key: str = ""
    """The key that the owner's commands send; only the owner can read the file."""
    certificate: str = ""
    """The certificate that the gateway has, in PEM; empty if it speaks plain HTTP."""
    scripts: bool = False
    """Whether it offers models to write scripts."""
    is_open: bool = False
    """Whether it admits every program of this machine while there is no token."""


class GatewayFile:
    """The record and the lock of one configuration's gateway."""

    def __init__(self, data_dir: Path, config_key: str) -> None:
        self.path = data_dir / "run" / f"gateway-{config_key}.json"
        self._lock = self.path.with_suffix(".lock")

    @contextmanager
    def lock(self) -> Generator[None]:
        """Be the configuration's only gateway for as long as the block lasts.

        Removes the record of a gateway that was killed. Raises `GatewayRunningError` when
        another one runs.
        """
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(self._lock, _PATIENCE_S))
            except TimeoutError:
                raise GatewayRunningError(
                    "a gateway of this configuration is running or starting already; "
                    "see: toolscript gateway status"
                ) from None
            self.path.unlink(missing_ok=True)
            yield

    def is_locked(self) -> bool:
        """Whether a gateway runs, even one that does not answer."""
        if not is_file(self._lock):
            return False
        with suppress(OSError, ImportError):
            return _is_locked(self._lock)
        try:
            with locked(self._lock, 0):
                return False
        except TimeoutError:
            return True
        except OSError:  # what cannot be opened is not locked
            return False

    def read(self) -> GatewayRecord | None:
        """Returns the record; None if there is none that can be read.

        Fields that only a newer version knows are left out.
        """
        try:
            given = json.loads(self.path.read_bytes())
            names = [field.name for field in fields(GatewayRecord) if field.name in given]
            return GatewayRecord(**{name: given[name] for name in names})
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def write(self, record: GatewayRecord) -> None:
        """Write the record."""
        write_atomically(self.path, json.dumps(asdict(record)).encode())

    def remove(self, pid: int | None = None) -> None:
        """Remove the record, if it is that process's (this one's by default)."""
        record = self.read()
        if record is not None and record.pid == (pid or os.getpid()):
            with suppress(OSError):
                self.path.unlink()


def _is_locked(path: Path) -> bool:
    """Looks at the lock as filelock does on POSIX, without the time of its import.

    The lock it tries is a shared one, so that two commands do not take each other for a gateway.
    """
    import fcntl  # noqa: PLC0415 - POSIX only

    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return True
    return False
