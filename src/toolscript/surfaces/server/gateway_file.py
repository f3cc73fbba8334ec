"""The note a running gateway leaves in the data directory, so that others find it.

The note says where the gateway is, a lock beside it that it runs: the system
frees the lock with the process, however that ends.

Kept free of heavy imports: every command reads it.
"""

import contextlib
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from toolscript.errors import GatewayRunningError
from toolscript.storage.atomic_files import is_file, make_private, write_atomically

_PATIENCE_S = 1.0
"""Longer than a command that only looks holds the lock."""


@dataclass(frozen=True, slots=True)
class Record:
    """Where a gateway listens, and what it was started with."""

    url: str
    pid: int
    version: str
    model: str
    key: str = ""
    """By which the gateway knows its owner's commands: only the owner can read the note."""


class GatewayFile:
    """The record of one configuration's gateway, and the lock that is held while it runs."""

    def __init__(self, data_dir: Path, config_key: str) -> None:
        self.path = data_dir / "run" / f"gateway-{config_key}.json"
        self._lock = self.path.with_suffix(".lock")

    @contextmanager
    def held(self) -> Generator[None]:
        """Be the configuration's only gateway for as long as the block lasts.

        Raises `GatewayRunningError` when another is. A note that is found was
        left by one that could not take it away.
        """
        import filelock  # noqa: PLC0415 - see is_held

        make_private(self._lock.parent)
        lock = filelock.FileLock(self._lock, timeout=_PATIENCE_S, mode=0o600)
        try:
            lock.acquire()
        except filelock.Timeout:
            raise GatewayRunningError(
                "a gateway of this configuration is running or starting already; "
                "see: toolscript gateway status"
            ) from None
        try:
            self.path.unlink(missing_ok=True)
            yield
        finally:
            lock.release()

    def is_held(self) -> bool:
        """Whether a gateway runs, be it one that does not answer."""
        if not is_file(self._lock):
            return False
        with contextlib.suppress(OSError, ImportError):
            return _is_locked(self._lock)
        import filelock  # noqa: PLC0415 - takes longer than to ask a gateway that answers

        try:
            with filelock.FileLock(self._lock, timeout=0, mode=0o600):
                return False
        except filelock.Timeout:
            return True
        except OSError:  # nobody can hold what cannot be opened
            return False

    def read(self) -> Record | None:
        """The record, or None when there is none that can be read."""
        try:
            return Record(**json.loads(self.path.read_bytes()))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def write(self, record: Record) -> None:
        """Leave the note."""
        write_atomically(self.path, json.dumps(asdict(record)).encode())

    def remove(self, pid: int | None = None) -> None:
        """Take the note away, if it is that process's."""
        record = self.read()
        if record is not None and record.pid == (pid or os.getpid()):
            with contextlib.suppress(OSError):
                self.path.unlink()


def _is_locked(path: Path) -> bool:
    """What filelock would find on POSIX, without the time that it takes to import.

    The look is shared, so that two commands that look at once see no gateway in each other.
    """
    import fcntl  # noqa: PLC0415 - POSIX only

    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return True
    return False
