"""Downloads one model's files from the hub into a folder, with huggingface-hub.

huggingface-hub has the requests, retries, tokens, proxies, offline mode and cache. This module
chooses the files, limits how long a hub may be silent, and checks the files: see ADR 3.
"""

import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

import httpx2
import huggingface_hub
from huggingface_hub import constants, errors
from huggingface_hub.hf_api import RepoSibling

from toolscript.embedding.download_progress import Progress
from toolscript.embedding.integrity import is_known, sha256
from toolscript.embedding.model_layout import POOLING, REQUIRED
from toolscript.embedding.models import Repository, known
from toolscript.errors import ModelError, UnreachableError
from toolscript.storage.atomic_files import make_private
from toolscript.text.display import printable
from toolscript.text.redaction import redact

REACH_S = 1.5
"""The longest silence of the hub before a file's first byte."""
MAX_FILE_BYTES = 2 * 1024**3
_POLL_S = 0.02


class ModelDownload:
    """Downloads one model's files into one folder."""

    def __init__(
        self, repository: Repository, folder: Path, endpoint: str | None, progress: Progress
    ) -> None:
        self._repository = repository
        self.commit = repository.revision
        """The commit of all files; until the hub has told it, the revision."""
        self._folder = folder
        self._endpoint = endpoint or constants.ENDPOINT
        self._hub = f"the hub at {redact(self._endpoint, ())}"
        self._progress = progress
        stated = constants.HF_HUB_ETAG_TIMEOUT
        self._reach_s = REACH_S if stated == constants.DEFAULT_ETAG_TIMEOUT else float(stated)

    def run(self, weights: Sequence[str]) -> list[str]:
        """Downloads the required files, and the first of ``weights`` that exists.

        Returns the files' names. Raises `ModelError`, `UnreachableError` and `OSError`.
        """
        return self._copy_from_cache(weights) or self._watch(lambda: self._download(weights))

    def _copy_from_cache(self, weights: Sequence[str]) -> list[str]:
        """Copies the files from huggingface-hub's cache; returns no names if it lacks one."""
        best = next(filter(self._find_cached, weights), "")
        names = [*REQUIRED, *filter(self._find_cached, [POOLING]), best]
        sources = {name: path for name in names if (path := self._find_cached(name))}
        if len(sources) < len(names):
            return []
        for name, path in sources.items():
            if not is_known(path, name, self._repository.revision):
                return []
            make_private((self._folder / name).parent)
            shutil.copyfile(path, self._folder / name)
        return names

    def _find_cached(self, name: str) -> Path | None:
        if not name:
            return None
        path = huggingface_hub.try_to_load_from_cache(
            self._repository.name, name, revision=self._repository.revision
        )
        return Path(path) if isinstance(path, str) else None

    def _watch(self, download: Callable[[], list[str]]) -> list[str]:
        """Returns the result of ``download``, unless the hub is silent for too long.

        It runs in a thread that is left behind when it hangs, since looking up a
        name cannot be interrupted. A thread that was left behind downloads nothing.
        """
        future: Future[list[str]] = Future()

        def run() -> None:
            try:
                future.set_result(download())
            except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
                future.set_exception(error)

        threading.Thread(target=run, daemon=True, name="toolscript-hub").start()
        steps, since = -1, 0.0
        while not wait([future], _POLL_S).done:
            if self._progress.streaming or self._progress.steps != steps:
                steps, since = self._progress.steps, time.monotonic()
            elif time.monotonic() - since > self._reach_s:
                self._progress.cancel()
                raise UnreachableError(f"{self._hub} did not answer within {self._reach_s:g} s")
        error = future.exception()
        if error is not None:
            raise self._explain(error) from None
        return future.result()

    def _download(self, weights: Sequence[str]) -> list[str]:
        name, revision = self._repository.name, self._repository.revision
        api = huggingface_hub.HfApi(endpoint=self._endpoint)
        # The time-out is longer than `_watch` waits, which says that the hub hangs.
        timeout = 2 * self._reach_s
        info = api.model_info(name, revision=revision, timeout=timeout, files_metadata=True)
        self._progress.advance()
        self.commit = info.sha or revision
        there = {each.rfilename: each for each in info.siblings or ()}
        wanted = [[each] for each in REQUIRED] + [[*weights]]
        found = [next(filter(there.__contains__, names), "") for names in wanted]
        if "" in found:
            missing = " nor ".join(wanted[found.index("")])
            raise ModelError(f"{name} has no {missing}; expected the hub's layout")
        if known(name) is None and POOLING in there:
            found.append(POOLING)
        sizes = {each: there[each].size or 0 for each in found}
        # The largest first: it comes from another host, which may be out of reach by itself.
        found.sort(key=sizes.__getitem__, reverse=True)
        if sizes[found[0]] > MAX_FILE_BYTES:
            raise ModelError(f"{name}: {found[0]} has {sizes[found[0]]} bytes; that is too large")
        self._progress.expect(sum(sizes.values()))
        for each in found:
            self._fetch(there[each])
        shutil.rmtree(self._folder / ".cache", ignore_errors=True)  # the client's notes
        return found

    def _fetch(self, file: RepoSibling) -> None:
        """Downloads one file and checks it."""
        name, bar = file.rfilename, cast("Any", partial(_Bar, self._progress))
        path = Path(
            huggingface_hub.hf_hub_download(  # pyright: ignore[reportUnknownMemberType] - its user_agent
                self._repository.name,
                name,
                revision=self.commit,
                local_dir=self._folder,
                endpoint=self._endpoint,
                etag_timeout=2 * self._reach_s,
                tqdm_class=bar,
            )
        )
        expects = ""
        if file.lfs and sha256(path) != file.lfs.sha256:
            expects = "the hub describes"
        elif not is_known(path, name, self._repository.revision):
            expects = "toolscript knows"
        if expects:
            path.unlink()
            raise ModelError(
                f"{self._repository.name}: {name} is not the file that {expects} (its SHA-256 is "
                "another); it was thrown away"
            )

    def _explain(self, error: BaseException) -> BaseException:
        """Returns a failure of the hub as a `ModelError` of one line, and any other as it is."""
        name, hub = self._repository.name, self._hub
        match error:
            case errors.LocalEntryNotFoundError() if error.__cause__ is not None:
                return self._explain(error.__cause__)
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
            case errors.FileMetadataError() | KeyError() | TypeError() | ValueError():
                reason = f"{hub} answers, but not as a hub does"
            case httpx2.HTTPError():
                line = printable(redact(str(error), ()), 200) or type(error).__name__
                reason = f"{hub} cannot be reached: {line}"
            case _:
                return error
        return UnreachableError(reason)


class _Bar:
    """The part of tqdm's interface that huggingface-hub calls; counts into a `Progress`.

    It exists from a file's first byte to its last.
    """

    def __init__(self, progress: Progress, **_options: object) -> None:
        self._progress = progress
        progress.advance()

    def __enter__(self) -> Self:
        self._progress.streaming = True
        return self

    def __exit__(self, *_exception: object) -> None:
        self._progress.streaming = False

    def update(self, size_bytes: int) -> None:
        self._progress.advance(size_bytes)
