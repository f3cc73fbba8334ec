"""From the model's name in the settings to an encoder, with the fallback chain.

The model asked for, else the bundled one, else none: each step down keeps the
reason, so that every answer can say that it is degraded and why.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from toolscript.embedding.base import Encoder
from toolscript.embedding.models import BUNDLED, model_spec
from toolscript.errors import ModelError
from toolscript.files import expanded, is_dir

log = logging.getLogger(__name__)
BUNDLED_FOLDER = Path(__file__).parent / "bundled"


@dataclass(frozen=True, slots=True)
class Loaded:
    """What there is to embed with: possibly nothing, possibly not what was asked for."""

    encoder: Encoder | None
    degraded: str = ""


class LazyModel:
    """A model that is loaded when it is first needed, once, whichever thread needs it."""

    def __init__(self, load: Callable[[], Loaded]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._loaded: Loaded | None = None

    @property
    def loaded(self) -> Loaded | None:
        """What was loaded, or None when nothing has needed the model yet."""
        return self._loaded

    def get(self) -> Loaded:
        """What was loaded, loading it now when need be."""
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
                if self._loaded.degraded:
                    log.warning("%s", self._loaded.degraded)
            return self._loaded

    def give_up(self, reason: str) -> Loaded:
        """Do without the model from now on: it was loaded, but does not work."""
        with self._lock:
            self._loaded = Loaded(None, f"searching without meaning: {reason}")
            log.warning("%s", self._loaded.degraded)
            return self._loaded


def load(model: str, fallback: str, threads: int) -> Loaded:
    """Load ``model``; where it cannot be, what ``fallback`` says."""
    try:
        return Loaded(_encoder(model, threads))
    except ModelError as error:
        reason = str(error)
    if model == "bundled" or fallback == "fuzzy":
        return Loaded(None, f"searching without meaning: {reason}")
    try:
        return Loaded(_encoder("bundled", threads), f"using the bundled model: {reason}")
    except ModelError as error:
        return Loaded(None, f"searching without meaning: {reason}; {error}")


def _encoder(model: str, threads: int) -> Encoder:
    # Imported here: the runtime costs a tenth of a second, and not every
    # command that is wired needs it.
    from toolscript.embedding.onnx import OnnxEncoder  # noqa: PLC0415 - see above

    if model == "bundled":
        return OnnxEncoder(BUNDLED_FOLDER, model_spec(BUNDLED), threads)
    folder = expanded(model)
    if is_dir(folder):
        return OnnxEncoder(folder, model_spec(folder.absolute().name), threads)
    raise ModelError(
        f"model {model!r} is neither 'bundled' nor a folder; models from the hub are not read yet"
    )
