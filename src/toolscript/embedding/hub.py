"""The models that were downloaded from the hub: each once, and found again without asking."""

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolscript.embedding.download_progress import Progress
from toolscript.embedding.models import Repository
from toolscript.errors import ModelError, UnreachableError
from toolscript.storage.atomic_files import file_name, make_private, write_atomically

if TYPE_CHECKING:
    import filelock

MARKER = "complete.json"
"""Written last into a model's folder: the files and sizes of a complete model."""
FORGET_S = 600.0
"""How long it is remembered that a model could not be had."""
_ENVIRONMENT = {
    "HF_HUB_DISABLE_TELEMETRY": "1",  # toolscript sends no usage data
    "HF_HUB_DISABLE_XET": "1",  # one way to fetch a file: HTTP, through the user's proxy
    "HF_HUB_VERBOSITY": "error",
}
"""Settings of huggingface-hub, unless the user has made them."""
_OUTSIDE = re.compile(
    r"HF_(ENDPOINT|TOKEN|TOKEN_PATH|HOME|HUB_OFFLINE|HUB_CACHE|HUB_\w+_TIMEOUT)"
    r"|HUGGING_FACE_HUB_TOKEN|SSL_CERT_\w+|(HTTPS?|ALL|NO)_PROXY",
    re.IGNORECASE,
)
"""The variables that decide whether a hub or a server can be reached."""


@dataclass(frozen=True, slots=True)
class NegativeCache:
    """A file with the reason of a failure, its expiry and the environment it happened in."""

    path: Path | None
    """None: nothing is remembered."""
    request: str = field(repr=False)
    """Anything else the answer depends on, such as a key. Only a digest of it is stored."""
    expires_s: float

    def read(self) -> str:
        """Returns the reason of a recent failure in the same environment; else an empty text."""
        try:
            note: Any = json.loads(self.path.read_bytes()) if self.path else {}
            fresh = 0 <= note["until"] - time.time() <= self.expires_s
            return str(note["reason"]) if fresh and note["request"] == self._digest() else ""
        except (OSError, ValueError, TypeError, KeyError):
            return ""

    def write(self, reason: str) -> None:
        """Stores the reason of a failure, unless the file cannot be written."""
        note = {"reason": reason, "until": time.time() + self.expires_s, "request": self._digest()}
        if self.path is not None:
            with contextlib.suppress(OSError):
                write_atomically(self.path, json.dumps(note).encode())

    def _digest(self) -> str:
        named = sorted((k, v) for k, v in os.environ.items() if _OUTSIDE.fullmatch(k))
        return hashlib.sha256(repr((self.request, named)).encode(errors="replace")).hexdigest()


class Hub:
    """The models in one directory. Holds nothing open."""

    def __init__(self, directory: Path, endpoint: str | None = None) -> None:
        self.directory = directory
        self._endpoint = endpoint

    def folder(self, repository: Repository) -> Path:
        """Returns the folder of a model, which need not exist."""
        name = repository.name.replace("/", "--")
        return self.directory / name / file_name(repository.revision.replace("/", "--"))

    def local(self, repository: Repository) -> Path | None:
        """Returns the folder of a model that is completely here; asks no network."""
        folder = self.folder(repository)
        try:
            sizes: dict[str, int] = json.loads((folder / MARKER).read_bytes())["files"]
            complete = all(_size(folder / name) == size for name, size in sizes.items())
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None
        return folder if sizes and complete else None

    def failed(self, repository: Repository) -> str:
        """Returns why a download failed a moment ago; empty when it may be tried now."""
        return self._note(repository).read()

    def fetch(self, repository: Repository, weights: Sequence[str], progress: Progress) -> Path:
        """Returns the folder of a model, downloading it with the first of ``weights`` if need be.

        Raises `ModelError` naming the missing file, and `UnreachableError` when
        the hub does not answer. A failure is remembered for `FORGET_S`.
        """
        folder = self.folder(repository)
        progress.begin(repository.name)
        try:
            make_private(folder)
            with _lock(folder):
                if self.local(repository) is None:
                    self._download(repository, weights, progress)
                return folder
        except OSError as error:
            reason = error.strerror or str(error)
            raise ModelError(f"{repository.name} cannot be stored in {folder}: {reason}") from None
        finally:
            progress.end()

    def _download(self, repository: Repository, weights: Sequence[str], progress: Progress) -> None:
        reason = self.failed(repository)
        if reason:
            raise UnreachableError(reason)
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        from toolscript.embedding.download import ModelDownload  # noqa: PLC0415 - imports the hub's client

        folder = self.folder(repository)
        download = ModelDownload(repository, folder, self._endpoint, progress)
        try:
            names = download.run(weights)
        except ModelError as error:
            self._note(repository).write(str(error))
            raise
        marker = {
            "repository": repository.name,
            "revision": repository.revision,
            "commit": download.commit,
            "files": {name: _size(folder / name) for name in names},
        }
        write_atomically(folder / MARKER, json.dumps(marker, indent=2).encode())

    def _note(self, repository: Repository) -> NegativeCache:
        path = _beside(self.folder(repository), "failed.json")
        return NegativeCache(path, self._endpoint or "", FORGET_S)


def _size(path: Path) -> int:
    """Returns a file's size in bytes; -1 if there is no file."""
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _beside(folder: Path, kind: str) -> Path:
    return folder.parent / f"{folder.name}.{kind}"


def _lock(folder: Path) -> "filelock.BaseFileLock":
    """Returns the lock that keeps other processes from downloading into a folder."""
    import filelock  # noqa: PLC0415 - takes longer than most commands have

    return filelock.FileLock(_beside(folder, "lock"), mode=0o600)
