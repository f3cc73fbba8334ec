"""Files that are never half written."""

import contextlib
import os
import tempfile
from pathlib import Path


def expanded(text: str) -> Path:
    """The path, its leading ``~`` replaced where there is such a home directory."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def is_file(path: Path) -> bool:
    """Whether there is a file; not where it may not be looked at or the name is impossible."""
    try:
        return path.is_file()
    except OSError:
        return False


def is_dir(path: Path) -> bool:
    """The same for a directory."""
    try:
        return path.is_dir()
    except OSError:
        return False


def write_atomically(path: Path, data: bytes) -> None:
    """Replace ``path`` by ``data``, or leave it as it was.

    The data is on the disk before the name points to it, and only the owner may
    read it. Raises `OSError` (a full disk, a read-only directory) after taking
    the temporary file away.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
