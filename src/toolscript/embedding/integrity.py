"""Compares a model's files with the SHA-256 digests of the models that are known."""

import contextlib
import hashlib
import json
from functools import cache
from pathlib import Path

from toolscript.embedding.models import DIGESTS
from toolscript.errors import ModelError
from toolscript.storage.atomic_files import stamp, write_atomically

PROVENANCE = "PROVENANCE.json"
"""The file beside the bundled model that has the SHA-256 of its files, among other things."""


def sha256(path: Path) -> str:
    """Returns the SHA-256 of a file's content as hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_known(path: Path, name: str, revision: str) -> bool:
    """Whether a file has the digest known for this commit, or none is known."""
    digest = DIGESTS.get(revision, {}).get(name)
    return digest is None or sha256(path) == digest


def check_bundled(folder: Path, note: Path | None) -> None:
    """Raise `ModelError` if a file of the bundled model is not as it was packaged.

    The files are read once for each installation: the file ``note`` remembers
    which state of them was right.
    """
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    seen = stamp(files)
    if note is not None:
        with contextlib.suppress(OSError):
            if note.read_text("utf-8") == seen:
                return
    damaged = _find_damaged(folder, seen)
    if damaged:
        raise ModelError(f"the bundled model is damaged ({damaged}); install toolscript again")
    if note is not None:
        with contextlib.suppress(OSError):
            write_atomically(note, seen.encode())


@cache
def _find_damaged(folder: Path, seen: str) -> str:
    """The first file that is not as it was packaged; ``seen`` is the state it is cached for."""
    del seen
    try:
        known: dict[str, str] = json.loads((folder / PROVENANCE).read_bytes())["results"]
        return next((name for name in known if sha256(folder / name) != known[name]), "")
    except (OSError, ValueError, KeyError) as error:
        return str(error)
