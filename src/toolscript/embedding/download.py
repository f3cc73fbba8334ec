"""The download of one model's files.

huggingface-hub's client brings the endpoint, the token, the proxies, the
offline mode and the errors. Its own download gives up what it has when it is
interrupted and compares no checksum, so the bytes are fetched here: into a
partial file that the next attempt goes on with, and under the real name only
after size and checksum are right.
"""

import hashlib
import json
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar
from urllib.parse import urljoin, urlsplit

from toolscript.embedding.download_progress import Progress
from toolscript.embedding.integrity import is_known
from toolscript.embedding.model_layout import POOLING, REQUIRED
from toolscript.embedding.models import known
from toolscript.errors import ModelError, UnreachableError
from toolscript.storage.atomic_files import make_private, write_atomically
from toolscript.text import printable, redact

REACH_S = 1.5
"""How long the hub may take for a first sign of life: whoever waits gets another model instead."""
STALL_S = 20.0
"""How long a download that has begun may stand still."""
ATTEMPTS = 5
"""In a row without a new byte."""
MAX_FILE_BYTES = 2 * 1024**3
MARKER = "complete.json"
"""Written last: what is listed there is here, whole."""
_CHUNK_BYTES = 256 * 1024
_POLL_S = 0.02
_PAUSE_S = 0.3
_PARTIAL, _NO_SUCH_RANGE = 206, 416

_T = TypeVar("_T")


class Wanted(Protocol):
    """A repository's name and revision."""

    @property
    def name(self) -> str:
        """``owner/name``."""
        ...

    @property
    def revision(self) -> str:
        """A commit, branch or tag."""
        ...


def size_of(path: Path) -> int:
    """A file's bytes; -1 where there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return -1


@dataclass(slots=True)
class _Source:
    """One file as the hub describes it."""

    name: str
    url: str
    etag: str
    size: int
    headers: dict[str, str]


class Download:
    """One model's files into one folder."""

    def __init__(
        self, repository: Wanted, folder: Path, endpoint: str | None, progress: Progress
    ) -> None:
        # Toolscript reports to nobody what it is used for, and neither does what it uses.
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        import httpx2  # noqa: PLC0415 - take as long as a search, and are needed once
        import huggingface_hub  # noqa: PLC0415
        from huggingface_hub import constants, errors  # noqa: PLC0415

        self._hub: Any = huggingface_hub
        self._http: Any = httpx2
        self._errors: Any = errors
        self._constants: Any = constants
        self._repository = repository
        self._commit = repository.revision
        self._folder = folder
        self._endpoint = endpoint or str(self._constants.ENDPOINT)
        self._progress = progress
        self._reach_s = self._limit("ETAG", REACH_S)
        self._stall_s = self._limit("DOWNLOAD", STALL_S)

    def run(self, weights: Sequence[str]) -> None:
        """Everything that is needed, and then the marker that says so."""
        names = self._adopted(weights) or self._bounded(lambda: self._all(weights))
        marker = {
            "repository": self._repository.name,
            "revision": self._repository.revision,
            "commit": self._commit,
            "files": {name: size_of(self._folder / name) for name in names},
        }
        write_atomically(self._folder / MARKER, json.dumps(marker, indent=2).encode())

    def _limit(self, name: str, ours: float) -> float:
        """The user's own time-out, where huggingface-hub's variable gives one."""
        stated = getattr(self._constants, f"HF_HUB_{name}_TIMEOUT")
        usual = getattr(self._constants, f"DEFAULT_{name}_TIMEOUT")
        return float(stated) if stated != usual else ours

    def _adopted(self, weights: Sequence[str]) -> list[str]:
        """The files, if huggingface-hub's own cache has them: copied, not downloaded."""
        found = {name: self._in_cache(name) for name in (*REQUIRED, POOLING, *weights)}
        if not all(self._is_known(Path(path), name) for name, path in found.items() if path):
            return []
        first = next((name for name in weights if found[name]), None)
        if first is None or not all(found[name] for name in REQUIRED):
            return []
        names = [*REQUIRED, *([POOLING] if found[POOLING] else []), first]
        for name in names:
            self._copy(Path(str(found[name])), name)
        return names

    def _in_cache(self, name: str) -> str | None:
        found = self._hub.try_to_load_from_cache(
            self._repository.name, name, revision=self._repository.revision
        )
        return found if isinstance(found, str) else None

    def _copy(self, source: Path, name: str) -> None:
        self._progress.advance()
        partial = self._partial(name, "copy")
        shutil.copyfile(source, partial)
        self._place(partial, name)

    def _bounded(self, work: Callable[[], _T]) -> _T:
        """What ``work`` returns, while it shows signs of life.

        It runs in a thread that is left behind when it hangs: looking a name up,
        for one, cannot be interrupted. Left behind, it writes nothing any more.
        """
        done = threading.Event()
        results: list[_T] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                results.append(work())
            except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
                errors.append(error)
            finally:
                done.set()

        threading.Thread(target=run, daemon=True, name="toolscript-hub").start()
        self._watch(done)
        if errors:
            raise self._told(errors[0]) from None
        return results[0]

    def _watch(self, done: threading.Event) -> None:
        steps, since = self._progress.steps, time.monotonic()
        while not done.wait(_POLL_S):
            if self._progress.steps != steps:
                steps, since = self._progress.steps, time.monotonic()
            limit = self._stall_s if self._progress.came_bytes else self._reach_s
            if time.monotonic() - since > limit:
                self._progress.cancel()
                raise UnreachableError(f"{self._shown} did not answer within {limit:g} s")

    @property
    def _shown(self) -> str:
        return f"the hub at {redact(self._endpoint, ())}"

    def _all(self, weights: Sequence[str]) -> list[str]:
        wanted = [self._needed(name) for name in REQUIRED]
        wanted.append(self._first(weights))
        if known(self._repository.name) is None:
            pooling = self._described(POOLING)
            wanted += [pooling] if pooling else []
        self._progress.expect(sum(max(0, source.size) for source in wanted))
        # The largest first: it comes from elsewhere, which may be out of reach by itself.
        for source in sorted(wanted, key=lambda each: -each.size):
            self._get(source)
        return [source.name for source in wanted]

    def _needed(self, name: str) -> _Source:
        source = self._described(name)
        if source is None:
            raise ModelError(f"{self._repository.name} has no {name}; expected the hub's layout")
        return source

    def _first(self, names: Sequence[str]) -> _Source:
        for name in names:
            source = self._described(name)
            if source is not None:
                return source
        raise ModelError(f"{self._repository.name} has neither {' nor '.join(names)}")

    def _described(self, name: str) -> _Source | None:
        """A file's address, checksum and size; None when the repository does not have it."""
        url = self._url(name)
        try:
            # Longer than whoever waits has patience, who is the one to say that it hangs.
            found = self._hub.get_hf_file_metadata(
                url, timeout=2 * self._reach_s, endpoint=self._endpoint
            )
        except self._errors.EntryNotFoundError:
            self._progress.advance()
            return None
        self._progress.advance()
        self._commit = found.commit_hash or self._commit  # all files of one commit
        size = -1 if found.size is None else found.size
        if size > MAX_FILE_BYTES:
            raise ModelError(f"{self._repository.name}: {name} has {size} bytes; that is too large")
        headers = {"Accept-Encoding": "identity"}
        token = self._hub.get_token()
        if token and _origin(found.location) == _origin(url):  # a signed address needs none
            headers["Authorization"] = f"Bearer {token}"
        at = self._url(name) if found.location == url else urljoin(url, found.location)
        return _Source(name, at, found.etag or "", size, headers)

    def _url(self, name: str) -> str:
        url: str = self._hub.hf_hub_url(
            self._repository.name, name, revision=self._commit, endpoint=self._endpoint
        )
        return url

    def _get(self, source: _Source) -> None:
        """One file, with what an earlier attempt has left, checked and under its name."""
        partial = self._partial(source.name, source.etag)
        if source.size > shutil.disk_usage(self._folder).free:
            raise OSError(0, f"no room for {source.size} bytes of {source.name}")
        partial.touch(mode=0o600)
        with partial.open("r+b") as file:
            self._progress.resume(file.seek(0, os.SEEK_END))
            self._stream_patiently(source, file)
            file.flush()
            os.fsync(file.fileno())
        if not _intact(partial, source):
            partial.unlink(missing_ok=True)
            raise ModelError(
                f"{self._repository.name}: {source.name} did not arrive as the hub describes it "
                "(its size or checksum is wrong); it was thrown away"
            )
        if not self._is_known(partial, source.name):
            partial.unlink(missing_ok=True)
            raise ModelError(
                f"{self._repository.name}: {source.name} is not the file that toolscript knows "
                "(its SHA-256 is another); it was thrown away"
            )
        self._place(partial, source.name)

    def _is_known(self, path: Path, name: str) -> bool:
        return is_known(path, name, self._repository.revision)

    def _stream_patiently(self, source: _Source, file: IO[bytes]) -> None:
        passing = (self._http.TimeoutException, self._http.NetworkError, self._http.ProtocolError)
        left = ATTEMPTS
        while left:
            before = file.tell()
            try:
                self._stream(source, file)
            except passing:
                left = ATTEMPTS if file.tell() > before else left - 1
                if not left:
                    raise
                time.sleep(_PAUSE_S)
            else:
                return

    def _stream(self, source: _Source, file: IO[bytes]) -> None:
        have = file.tell()
        if have == source.size:
            return
        headers = source.headers | ({"Range": f"bytes={have}-"} if have else {})
        timeout = self._http.Timeout(self._stall_s, connect=2 * self._reach_s)
        session = self._hub.get_session()
        with session.stream("GET", source.url, headers=headers, timeout=timeout) as response:
            if response.status_code != _NO_SUCH_RANGE:
                self._hub.hf_raise_for_status(response)
            if response.status_code != _PARTIAL and have:  # not the rest: begin anew
                file.seek(0)
                file.truncate()
                self._progress.resume(-have)
            if response.status_code == _NO_SUCH_RANGE:
                raise self._http.RemoteProtocolError("no such range")
            for chunk in response.iter_bytes(_CHUNK_BYTES):
                self._progress.advance(len(chunk))
                if file.tell() + len(chunk) > MAX_FILE_BYTES:
                    raise ModelError(f"{self._repository.name}: {source.name} does not end")
                file.write(chunk)

    def _partial(self, name: str, mark: str) -> Path:
        """Where a file grows: another file of that name on the hub goes elsewhere."""
        digest = hashlib.sha256(f"{name}\n{mark}".encode()).hexdigest()[:16]
        return self._folder / f"{digest}.partial"

    def _place(self, partial: Path, name: str) -> None:
        self._progress.advance()
        make_private((self._folder / name).parent)
        partial.replace(self._folder / name)

    def _told(self, error: BaseException) -> BaseException:
        """A failure in one line."""
        errors, name, hub = self._errors, self._repository.name, self._shown
        status = getattr(getattr(error, "response", None), "status_code", "?")
        lasting = {
            errors.GatedRepoError: f"{name} is gated: accept its terms on the hub and set HF_TOKEN",
            errors.RepositoryNotFoundError: f"{hub} has no {name} that you may read; check the "
            "name, or set HF_TOKEN if it is private",
            errors.RevisionNotFoundError: f"{name} has no revision {self._repository.revision!r}",
        }
        passing = {
            errors.OfflineModeIsEnabled: f"{name} is not here, and HF_HUB_OFFLINE forbids asking",
            errors.HfHubHTTPError: f"{hub} answered HTTP {status}",
            errors.FileMetadataError: f"{hub} answers, but not as a hub does",
            self._http.HTTPError: f"{hub} cannot be reached: {_first_line(error)}",
        }
        for kinds, told in ((lasting, ModelError), (passing, UnreachableError)):
            for kind, message in kinds.items():
                if isinstance(error, kind):
                    return told(message)
        return error


def _first_line(error: BaseException) -> str:
    return printable(redact(str(error), ()), 200) or type(error).__name__


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.rpartition("@")[2].casefold()


def _intact(path: Path, source: _Source) -> bool:
    """Whether a file has the size and the checksum that the hub gives.

    An ETag is the SHA-256 of a large file, and git's SHA-1 of a small one; a
    mirror may have others, which say nothing.
    """
    size = path.stat().st_size
    if source.size >= 0 and size != source.size:
        return False
    if re.fullmatch(r"[0-9a-f]{64}", source.etag):
        digest: Any = hashlib.sha256()
    elif re.fullmatch(r"[0-9a-f]{40}", source.etag):
        digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    else:
        return True
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest() == source.etag
