"""The note a running gateway leaves in the data directory, so that others find it.

Kept free of heavy imports: every command reads it.
"""

import contextlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from toolscript.files import is_file, write_atomically


@dataclass(frozen=True, slots=True)
class Record:
    """Where a gateway listens, and what it was started with."""

    url: str
    pid: int
    version: str
    model: str
    stamps: tuple[tuple[str, int, int], ...]
    """Path, modification time in ns and size of each configuration file."""

    def is_current(self, sources: Iterable[Path]) -> bool:
        """Whether the configuration files are those the gateway has read."""
        return self.stamps == stamps(sources)


def stamps(sources: Iterable[Path]) -> tuple[tuple[str, int, int], ...]:
    """What tells an edited, added or deleted configuration file from those that were read."""
    found = [(str(path), path.stat()) for path in sources if is_file(path)]
    return tuple((name, status.st_mtime_ns, status.st_size) for name, status in found)


class RecordFile:
    """The record of one configuration's gateway."""

    def __init__(self, data_dir: Path, config_key: str) -> None:
        self.path = data_dir / "run" / f"gateway-{config_key}.json"

    def read(self) -> Record | None:
        """The record, or None when there is none that can be read."""
        try:
            fields = json.loads(self.path.read_bytes())
            fields["stamps"] = tuple((str(p), int(m), int(s)) for p, m, s in fields["stamps"])
            return Record(**fields)
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
