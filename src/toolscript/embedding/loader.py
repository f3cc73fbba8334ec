"""Loads the encoder of the model that the settings name, or of its fallback.

The model asked for, else the bundled one, else none: each step down keeps the
reason, so that every answer can say that it is degraded and why.
"""

import hashlib
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from toolscript.embedding import device as devices
from toolscript.embedding.download_progress import Progress
from toolscript.embedding.hub import Hub, NegativeCache
from toolscript.embedding.integrity import check_bundled
from toolscript.embedding.model_layout import (
    find_weights,
    has_choice,
    spec_of,
    vectors_name,
    weights_for,
)
from toolscript.embedding.models import BUNDLED, Repository, is_trusted
from toolscript.errors import ModelError, UnreachableError, UnsuitableModelError
from toolscript.storage.atomic_files import expanded, is_dir

if TYPE_CHECKING:
    from toolscript.embedding.base import Encoder

log = logging.getLogger(__name__)
FORGET_REMOTE_S = 60.0
"""How long it is remembered that an embedding server did not answer."""
BUNDLED_FOLDER = Path(__file__).parent / "bundled"
_BUNDLED_NAMES = ("bundled", BUNDLED)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The encoder that was loaded, or None; ``degraded`` says why it is not the one asked for."""

    encoder: "Encoder | None"
    degraded: str = ""


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """The name of a model's vectors, known from its files without loading it."""

    name: str
    degraded: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which model is asked for, and how it may be loaded."""

    model: str
    fallback: str = "bundled"
    threads: int = 0
    device: str = "auto"
    directory: Path | None = None
    """The folder of models from the hub; None: no such model is used."""
    endpoint: str | None = None
    """The hub's address; None: the one that huggingface-hub's environment names."""
    trusted: str | None = None
    """Repositories outside the table that may be loaded, with commas between."""
    key: str | None = field(default=None, repr=False)
    """The bearer token for an embedding server; None if it needs none."""


class LazyModel:
    """A model that is loaded once, when a thread first needs it.

    Args:
        load: Loads the model, as `load_model` does. May raise the errors of that.
        identify: Returns the model that ``load`` will load; None if only loading can tell.
        progress: Counts the bytes of a download.
    """

    def __init__(
        self,
        load: Callable[[], Loaded],
        identify: Callable[[], ModelIdentity | None] = lambda: None,
        progress: Progress | None = None,
    ) -> None:
        self._load = load
        self._identify = identify
        self._lock = threading.Lock()
        self._loaded: Loaded | None = None
        self._refusal: ModelError | None = None
        self.progress = progress or Progress()

    @property
    def loaded(self) -> Loaded | None:
        """The state; None if nothing has needed the model yet. Raises as `get` does."""
        if self._refusal is not None:
            raise self._refusal
        return self._loaded

    def identify(self) -> ModelIdentity | None:
        """Returns the model that `get` will load; None if only loading can tell."""
        loaded = self._loaded
        if loaded is None:
            return self._identify()
        return ModelIdentity(loaded.encoder.name, loaded.degraded) if loaded.encoder else None

    @property
    def is_fallback(self) -> bool:
        """Whether the model stands in for another, as far as that is known without loading it."""
        identity = self.identify()
        return identity is not None and bool(identity.degraded)

    def begin(self) -> ModelIdentity | None:
        """Starts loading in another thread, unless it has to be downloaded; see `identify`."""
        identity = self.identify()
        if self._loaded is None and identity is not None:
            threading.Thread(target=self._get_quietly, name="model").start()
        return identity

    def _get_quietly(self) -> None:
        try:
            self.get()
        except Exception as error:  # noqa: BLE001 - the next caller of `get` sees it
            log.debug("the model could not be loaded beforehand: %s", error)

    def get(self) -> Loaded:
        """Returns the model's state, loading it now if need be.

        Raises `UnsuitableModelError` if no other may stand in for it.
        """
        with self._lock:
            loaded = self.loaded
            if loaded is None:
                try:
                    loaded = self._loaded = self._load()
                except UnsuitableModelError as error:
                    self._refusal = error
                    raise
                if loaded.degraded:
                    log.warning("%s", loaded.degraded)
            return loaded

    def give_up(self, reason: str) -> Loaded:
        """Stops using the model, which was loaded but does not work; returns the new state.

        ``reason`` says why: every answer repeats it.
        """
        with self._lock:
            self._loaded = Loaded(None, f"searching without meaning: {reason}")
            log.warning("%s", self._loaded.degraded)
            return self._loaded


def lazy(choice: Choice) -> LazyModel:
    """Returns the model of a choice, which is loaded when it is first needed."""
    progress = Progress()
    return LazyModel(
        lambda: load_choice(choice, progress), lambda: identify(choice), progress=progress
    )


def load_model(model: str, fallback: str, threads: int) -> Loaded:
    """Loads a model that is on this machine, as ``Loaded.encoder``.

    Args:
        model: A folder, an address, or "bundled".
        fallback: The model to load if that fails: "bundled", or "fuzzy" for none;
            ``Loaded.degraded`` says why.
        threads: Maximum number of threads; see `OnnxEncoder`.
    """
    return load_choice(Choice(model, fallback, threads), Progress())


def load_choice(choice: Choice, progress: Progress) -> Loaded:
    """Loads the chosen model, or its fallback if that fails.

    Raises `UnsuitableModelError` if it cannot be the one asked for: `DeviceError` if it has to run
    on a GPU and cannot.
    """
    alone = choice.model in _BUNDLED_NAMES or choice.fallback == "fuzzy"
    reasons: list[str] = []
    for find in (_source,) if alone else (_source, _bundle_folder):
        try:
            encoder = find(choice).load(progress)
            return Loaded(encoder, _standing_in(reasons[0]) if reasons else "")
        except ModelError as error:
            if not reasons and isinstance(error, UnsuitableModelError):
                raise
            reasons.append(str(error))
    return Loaded(None, f"searching without meaning: {'; '.join(reasons)}")


def identify(choice: Choice) -> ModelIdentity | None:
    """Returns the model that `load_choice` will load, without loading it or asking a server."""
    try:
        source = _source(choice)
        failed = source.failed()
        if not failed:
            name = source.vectors()
            return ModelIdentity(name) if name else None
        if choice.fallback == "fuzzy":
            return None
        name = _bundle_folder(choice).vectors()
        return ModelIdentity(name, _standing_in(failed)) if name else None
    except ModelError:
        return None


def _standing_in(reason: str) -> str:
    return f"using the bundled model: {reason}"


@dataclass(frozen=True, slots=True)
class _Folder:
    """A model in a folder of this machine."""

    folder: Path
    name: str
    choice: Choice

    def vectors(self) -> str | None:
        """Returns the name of its vectors; None if that depends on the devices."""
        if has_choice(self.folder) and self.choice.device != "cpu":
            return None
        return vectors_name(spec_of(self.folder, self.name), find_weights(self.folder))

    def failed(self) -> str:
        """Returns why it failed a moment ago; empty if it may be loaded."""
        return ""

    def load(self, progress: Progress) -> "Encoder":
        """The encoder; raises `ModelError`."""
        del progress
        from toolscript.embedding.onnx import OnnxEncoder  # noqa: PLC0415 - takes a tenth of a second

        if self.folder == BUNDLED_FOLDER:
            directory = self.choice.directory
            check_bundled(self.folder, directory and directory / "bundled.stamp")
        spec = spec_of(self.folder, self.name)
        return OnnxEncoder(self.folder, spec, self.choice.threads, self.choice.device)


@dataclass(frozen=True, slots=True)
class _FromHub:
    """A model of the hub, downloaded already or not."""

    hub: Hub
    repository: Repository
    choice: Choice

    def vectors(self) -> str | None:
        folder = self.hub.local(self.repository)
        return self._in(folder).vectors() if folder else None

    def failed(self) -> str:
        if self.hub.local(self.repository):
            return ""
        return self.hub.failed(self.repository)

    def load(self, progress: Progress) -> "Encoder":
        folder = self.hub.local(self.repository)
        if folder is None:
            gpu = devices.choose(self.choice.device, devices.offered())[0] != devices.CPU
            folder = self.hub.fetch(self.repository, weights_for(gpu=gpu), progress)
        return self._in(folder).load(progress)

    def _in(self, folder: Path) -> _Folder:
        return _Folder(folder, self.repository.name, self.choice)


@dataclass(frozen=True, slots=True)
class _Remote:
    """A model behind an address."""

    choice: Choice

    def vectors(self) -> str | None:
        return self.choice.model  # the address is all that is known of it

    def failed(self) -> str:
        return self._notes().read()

    def load(self, progress: Progress) -> "Encoder":
        del progress
        from toolscript.embedding.remote import Address, RemoteEncoder  # noqa: PLC0415 - its client takes a while

        known = self.failed()
        if known:
            raise UnreachableError(known)
        try:
            return RemoteEncoder(Address.parse(self.choice.model), self.choice.key or "")
        except UnreachableError as error:
            self._notes().write(str(error))
            raise

    def _notes(self) -> NegativeCache:
        digest = hashlib.sha256(self.choice.model.encode(errors="replace")).hexdigest()[:16]
        directory = self.choice.directory or Path()
        path = directory / f"remote-{digest}.failed.json" if self.choice.directory else None
        return NegativeCache(path, self.choice.key or "", FORGET_REMOTE_S)


def _source(choice: Choice) -> _Folder | _FromHub | _Remote:
    """Returns the source of the chosen model; raises `ModelError` for a text of no known form."""
    if choice.model in _BUNDLED_NAMES:
        return _bundle_folder(choice)
    if "://" in choice.model:
        return _Remote(choice)
    folder = expanded(choice.model)
    if is_dir(folder):
        return _Folder(folder, folder.absolute().name, choice)
    repository = Repository.parse(choice.model)
    if repository is None or choice.directory is None:
        raise UnsuitableModelError(
            f"model {choice.model[:200]!r} is neither 'bundled', a folder that exists, a "
            "repository such as Xenova/bge-small-en-v1.5, nor an address such as ollama://…"
        )
    if not is_trusted(repository, choice.trusted):
        raise UnsuitableModelError(
            f"model {repository.name} is not among those of toolscript models; if you trust it, "
            f"set TOOLSCRIPT_SEARCH_TRUSTED_MODELS={repository.name}"
        )
    return _FromHub(Hub(choice.directory, choice.endpoint), repository, choice)


def _bundle_folder(choice: Choice) -> _Folder:
    return _Folder(BUNDLED_FOLDER, BUNDLED, choice)
