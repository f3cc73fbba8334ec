"""Downloads one model's files from the hub into a folder.

huggingface-hub brings addresses, metadata, tokens, proxies, the offline mode, its cache and its
errors. The bytes are fetched here, because its own download starts again after an interruption,
compares no checksum and reports its progress every 10 MB: see ADR 3.
"""

import hashlib
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx2
import huggingface_hub
from huggingface_hub import constants, errors

from toolscript.embedding.download_progress import Progress
from toolscript.embedding.integrity import is_known
from toolscript.embedding.model_layout import POOLING, REQUIRED
from toolscript.embedding.models import Repository, known
from toolscript.errors import ModelError, UnreachableError
from toolscript.storage.atomic_files import make_private
from toolscript.text.display import printable
from toolscript.text.redaction import redact

REACH_S = 1.5
"""How long the hub may take until it answers for the first time."""
STALL_S = 20.0
"""How long a download that has begun may stand still."""
ATTEMPTS = 5
"""How many attempts in a row may bring no new byte."""
MAX_FILE_BYTES = 2 * 1024**3
_CHUNK_BYTES = 256 * 1024
_POLL_S = 0.02
_PAUSE_S = 0.3
_PARTIAL, _NO_SUCH_RANGE = 206, 416
_TRANSIENT = (httpx2.TimeoutException, httpx2.NetworkError, httpx2.ProtocolError)

_T = TypeVar("_T")


@dataclass(slots=True)
class _RemoteFile:
    """One file as the hub describes it; a size of -1 is not known."""

    name: str
    url: str
    etag: str
    size: int
    headers: dict[str, str]


class ModelDownload:
    """Downloads one model's files into one folder."""

    def __init__(
        self, repository: Repository, folder: Path, endpoint: str | None, progress: Progress
    ) -> None:
        self._repository = repository
        self.commit = repository.revision
        """The commit that all files are of; the revision as long as that is not known."""
        self._folder = folder
        self._endpoint = endpoint or constants.ENDPOINT
        self._hub = f"the hub at {redact(self._endpoint, ())}"
        self._progress = progress
        self._reach_s = _timeout("ETAG", REACH_S)
        self._stall_s = _timeout("DOWNLOAD", STALL_S)

    def run(self, weights: Sequence[str]) -> list[str]:
        """Downloads everything that is needed, and the first of ``weights`` that exists.

        Returns the files' names. Raises `ModelError`, `UnreachableError` and `OSError`.
        """
        return self._copy_from_cache(weights) or self._watched(lambda: self._all(weights))

    def _copy_from_cache(self, weights: Sequence[str]) -> list[str]:
        """Copy the files from huggingface-hub's own cache; an empty list where it lacks one."""
        cached = {name: self._in_cache(name) for name in (*REQUIRED, POOLING, *weights)}
        first = next((name for name in weights if cached[name]), None)
        names = [*REQUIRED, *([POOLING] if cached[POOLING] else []), first or ""]
        sources = {name: path for name in names if (path := cached.get(name))}
        if len(sources) < len(names) or not all(
            is_known(path, name, self._repository.revision) for name, path in sources.items()
        ):
            return []
        for name, path in sources.items():
            partial = self._partial(name, "copy")
            shutil.copyfile(path, partial)
            self._place(partial, name)
        return names

    def _in_cache(self, name: str) -> Path | None:
        path = huggingface_hub.try_to_load_from_cache(
            self._repository.name, name, revision=self._repository.revision
        )
        return Path(path) if isinstance(path, str) else None

    def _watched(self, work: Callable[[], _T]) -> _T:
        """Return what ``work`` returns, as long as it makes progress.

        It runs in a thread that is left behind when it hangs, since looking up a
        name cannot be interrupted. A thread that was left behind writes nothing.
        """
        future: Future[_T] = Future()

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
                future.set_exception(error)

        threading.Thread(target=run, daemon=True, name="toolscript-hub").start()
        steps, since = self._progress.steps, time.monotonic()
        while not wait([future], _POLL_S).done:
            if self._progress.steps != steps:
                steps, since = self._progress.steps, time.monotonic()
            limit_s = self._stall_s if self._progress.received_bytes else self._reach_s
            if time.monotonic() - since > limit_s:
                self._progress.cancel()
                raise UnreachableError(f"{self._hub} did not answer within {limit_s:g} s")
        error = future.exception()
        if error is not None:
            raise self._explained(error) from None
        return future.result()

    def _all(self, weights: Sequence[str]) -> list[str]:
        files = [self._first((name,)) for name in REQUIRED]
        files.append(self._first(weights))
        pooling = self._described(POOLING) if known(self._repository.name) is None else None
        files += [pooling] if pooling else []
        self._progress.expect(sum(max(0, file.size) for file in files))
        # The largest first: it comes from another host, which may be out of reach by itself.
        for file in sorted(files, key=lambda each: -each.size):
            self._get(file)
        return [file.name for file in files]

    def _first(self, names: Sequence[str]) -> _RemoteFile:
        for name in names:
            file = self._described(name)
            if file is not None:
                return file
        neither = f"no {names[0]}" if len(names) == 1 else f"neither {' nor '.join(names)}"
        raise ModelError(f"{self._repository.name} has {neither}; expected the hub's layout")

    def _described(self, name: str) -> _RemoteFile | None:
        """A file's address, checksum and size; None when the repository does not have it."""
        url = self._url(name)
        try:
            # The time-out is longer than `_watched` waits, which says that the hub hangs.
            found = huggingface_hub.get_hf_file_metadata(  # pyright: ignore[reportUnknownMemberType] - its user_agent
                url, timeout=2 * self._reach_s, endpoint=self._endpoint
            )
        except errors.EntryNotFoundError:
            self._progress.advance()
            return None
        self._progress.advance()
        self.commit = found.commit_hash or self.commit
        size = -1 if found.size is None else found.size
        if size > MAX_FILE_BYTES:
            raise ModelError(f"{self._repository.name}: {name} has {size} bytes; that is too large")
        headers = {"Accept-Encoding": "identity"}
        token = huggingface_hub.get_token()
        if token and _origin(found.location) == _origin(url):  # a signed address needs none
            headers["Authorization"] = f"Bearer {token}"
        at = self._url(name) if found.location == url else urljoin(url, found.location)
        return _RemoteFile(name, at, found.etag or "", size, headers)

    def _url(self, name: str) -> str:
        return huggingface_hub.hf_hub_url(
            self._repository.name, name, revision=self.commit, endpoint=self._endpoint
        )

    def _get(self, remote: _RemoteFile) -> None:
        """Download one file, continuing an earlier attempt, and check it."""
        partial = self._partial(remote.name, remote.etag)
        if remote.size > shutil.disk_usage(self._folder).free:
            raise OSError(0, f"no room for {remote.size} bytes of {remote.name}")
        partial.touch(mode=0o600)
        with partial.open("r+b") as file:
            self._progress.resume(file.seek(0, os.SEEK_END))
            self._stream_patiently(remote, file)
            file.flush()
            os.fsync(file.fileno())
        wrong = ""
        if not _is_intact(partial, remote):
            wrong = "did not arrive as the hub describes it (its size or checksum is wrong)"
        elif not is_known(partial, remote.name, self._repository.revision):
            wrong = "is not the file that toolscript knows (its SHA-256 is another)"
        if wrong:
            partial.unlink(missing_ok=True)
            name = f"{self._repository.name}: {remote.name}"
            raise ModelError(f"{name} {wrong}; it was thrown away")
        self._place(partial, remote.name)

    def _stream_patiently(self, remote: _RemoteFile, file: IO[bytes]) -> None:
        left = ATTEMPTS
        while left:
            before = file.tell()
            try:
                self._stream(remote, file)
            except _TRANSIENT:
                left = ATTEMPTS if file.tell() > before else left - 1
                if not left:
                    raise
                time.sleep(_PAUSE_S)
            else:
                return

    def _stream(self, remote: _RemoteFile, file: IO[bytes]) -> None:
        have = file.tell()
        if have == remote.size:
            return
        headers = remote.headers | ({"Range": f"bytes={have}-"} if have else {})
        timeout = httpx2.Timeout(self._stall_s, connect=2 * self._reach_s)
        session = huggingface_hub.get_session()
        with session.stream("GET", remote.url, headers=headers, timeout=timeout) as response:
            if response.status_code != _NO_SUCH_RANGE:
                huggingface_hub.utils.hf_raise_for_status(response)
            if response.status_code != _PARTIAL and have:  # not the rest: start again
                file.seek(0)
                file.truncate()
                self._progress.resume(-have)
            if response.status_code == _NO_SUCH_RANGE:
                raise httpx2.RemoteProtocolError("no such range")
            for chunk in response.iter_bytes(_CHUNK_BYTES):
                self._progress.advance(len(chunk))
                if file.tell() + len(chunk) > MAX_FILE_BYTES:
                    raise ModelError(f"{self._repository.name}: {remote.name} does not end")
                file.write(chunk)

    def _partial(self, name: str, mark: str) -> Path:
        """Where a file grows; a file of another content (``mark``) grows elsewhere."""
        digest = hashlib.sha256(f"{name}\n{mark}".encode()).hexdigest()[:16]
        return self._folder / f"{digest}.partial"

    def _place(self, partial: Path, name: str) -> None:
        self._progress.advance()
        make_private((self._folder / name).parent)
        partial.replace(self._folder / name)

    def _explained(self, error: BaseException) -> BaseException:
        """A failure as a `ModelError` of one line, where it is the hub's."""
        name, hub = self._repository.name, self._hub
        match error:
            case errors.GatedRepoError():
                return ModelError(f"{name} is gated: accept its terms on the hub and set HF_TOKEN")
            case errors.RepositoryNotFoundError():
                advice = "check the name, or set HF_TOKEN if it is private"
                return ModelError(f"{hub} has no {name} that you may read; {advice}")
            case errors.RevisionNotFoundError():
                return ModelError(f"{name} has no revision {self._repository.revision!r}")
            case errors.OfflineModeIsEnabled():
                reason = f"{name} is not here, and HF_HUB_OFFLINE forbids asking"
            case errors.HfHubHTTPError():
                reason = f"{hub} answered HTTP {error.response.status_code}"
            case errors.FileMetadataError():
                reason = f"{hub} answers, but not as a hub does"
            case httpx2.HTTPError():
                line = printable(redact(str(error), ()), 200) or type(error).__name__
                reason = f"{hub} cannot be reached: {line}"
            case _:
                return error
        return UnreachableError(reason)


def _timeout(name: str, default_s: float) -> float:
    """The user's own time-out, where huggingface-hub's variable gives one."""
    stated: int = getattr(constants, f"HF_HUB_{name}_TIMEOUT")
    return default_s if stated == getattr(constants, f"DEFAULT_{name}_TIMEOUT") else float(stated)


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.rpartition("@")[2].casefold()


def _is_intact(path: Path, remote: _RemoteFile) -> bool:
    """Whether a file has the size and the checksum that the hub gives.

    An ETag is the SHA-256 of a large file, and git's SHA-1 of a small one; a
    mirror may have others, which say nothing.
    """
    size = path.stat().st_size
    if remote.size >= 0 and size != remote.size:
        return False
    if re.fullmatch(r"[0-9a-f]{64}", remote.etag):
        digest = hashlib.sha256()
    elif re.fullmatch(r"[0-9a-f]{40}", remote.etag):
        digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    else:
        return True
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: digest).hexdigest() == remote.etag
