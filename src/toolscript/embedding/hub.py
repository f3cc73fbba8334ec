"""Models from the hub: downloaded once, and found again without asking."""

import contextlib
import json
import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import filelock

from toolscript.embedding.download import MARKER, Download, size_of
from toolscript.embedding.download_progress import Progress
from toolscript.embedding.models import known
from toolscript.embedding.negative_cache import NegativeCache
from toolscript.errors import ModelError, UnreachableError
from toolscript.storage.atomic_files import file_name, make_private

FORGET_S = 600.0
"""How long it is remembered that a model could not be had."""
_POLL_S = 0.2
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_REVISION = re.compile(r"[A-Za-z0-9][\w./-]{0,99}")


@dataclass(frozen=True, slots=True)
class Repository:
    """A model on the hub: ``owner/name``, and a commit, branch or tag of it."""

    name: str
    revision: str = "main"

    @classmethod
    def parse(cls, text: str) -> "Repository | None":
        """``owner/name``, ``owner/name@revision`` or a name of the table; else None."""
        name, separator, revision = text.partition("@")
        row = known(name)
        if row is not None and name.casefold() in {row.name.casefold(), row.repository.casefold()}:
            return cls(row.repository, revision or row.revision)
        if not _NAME.fullmatch(name) or ".." in text:
            return None
        if separator and not _REVISION.fullmatch(revision):
            return None
        return cls(name, revision or "main")


class Hub:
    """The models below one directory. Holds nothing open."""

    def __init__(self, directory: Path, endpoint: str | None = None) -> None:
        self.directory = directory
        self._endpoint = endpoint

    def folder(self, repository: Repository) -> Path:
        """Where a model is kept, be it there or not."""
        name = repository.name.replace("/", "--")
        return self.directory / name / file_name(repository.revision.replace("/", "--"))

    def local(self, repository: Repository) -> Path | None:
        """A model that is here, whole; looked up without any network."""
        folder = self.folder(repository)
        files = _marked(folder)
        if files and all(size_of(folder / name) == size for name, size in files.items()):
            return folder
        return None

    def failed(self, repository: Repository) -> str:
        """Why a model could not be had a moment ago, when asking again would be the same."""
        return self._note(repository).read()

    def fetch(self, repository: Repository, weights: Sequence[str], progress: Progress) -> Path:
        """A model that is here whole afterwards: found or downloaded, the first of ``weights``.

        Raises `ModelError` saying what is missing, and `UnreachableError` when
        the hub does not answer. A failure is remembered for `FORGET_S`.
        """
        folder = self.folder(repository)
        progress.begin(repository.name)
        try:
            make_private(folder)
            with _alone(folder, progress):
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
        try:
            Download(repository, self.folder(repository), self._endpoint, progress).run(weights)
        except ModelError as error:
            self._note(repository).write(str(error))
            raise

    def _note(self, repository: Repository) -> NegativeCache:
        path = _beside(self.folder(repository), "failed.json")
        return NegativeCache(path, self._endpoint or "", FORGET_S)


def _marked(folder: Path) -> dict[str, int]:
    """The files of a complete model and their sizes in bytes; nothing for one that is not."""
    try:
        files = json.loads((folder / MARKER).read_bytes())["files"]
        return {str(name): int(size) for name, size in files.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _beside(folder: Path, kind: str) -> Path:
    return folder.parent / f"{folder.name}.{kind}"


@contextlib.contextmanager
def _alone(folder: Path, progress: Progress) -> Generator[None]:
    """Nobody else downloads into the folder; whoever waits for that sees it grow."""
    lock = filelock.FileLock(_beside(folder, "lock"), mode=0o600)
    while True:
        try:
            lock.acquire(timeout=_POLL_S)
            break
        except filelock.Timeout:
            partial = sum(size_of(path) for path in folder.glob("*.partial"))
            progress.resume(partial - progress.done_bytes)
    progress.begin(progress.what)
    try:
        yield
    finally:
        lock.release()
