"""Calibration: puts the cosines of different models on one scale.

Raw cosines live on a scale of the model's own: two unrelated texts get about
0.1 from one model and 0.6 from another. A piecewise linear curve through three
points puts them on [0, 1], so that one threshold serves every model: what
unrelated texts get becomes 0, what a good answer gets becomes `GOOD`, and 1
stays 1. Nothing above the floor is clipped, so the order is kept.

For the models in `CURVES` the two points were measured on retrieval sets. Any
other model is measured once, on its machine, on the questions and tools of
``probes.json``: see `measure`.
"""

import hashlib
import json
import logging
import threading
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np

from toolscript.embedding.base import Encoder, Vectors
from toolscript.embedding.vector_cache import VERSION
from toolscript.retrieval.semantic.document_text import document_vectors
from toolscript.storage.atomic_files import file_name, write_atomically
from toolscript.types import Document, tool_id

log = logging.getLogger(__name__)
GOOD = 0.8
_UNRELATED, _TYPICAL = 0.6, 0.75
"""The share of the unrelated pairs' cosines below the floor, and of the related pairs' below a
good one."""
_LEAST_SPAN = 0.05
_PROBES = Path(__file__).with_name("probes.json")


@dataclass(frozen=True, slots=True)
class Curve:
    """Cosine ``floor`` becomes 0, cosine ``good`` becomes `GOOD`, cosine 1 becomes 1."""

    floor: float
    good: float

    def __call__(self, cosines: Vectors) -> Vectors:
        """Calibrated scores float32 [n] in [0, 1]; NaN stays NaN."""
        scaled = np.interp(cosines, (self.floor, self.good, 1.0), (0.0, GOOD, 1.0))
        return scaled.astype(np.float32)


CURVES = {
    "toolscript-minilm-l6": Curve(0.07, 0.6),
    "all-MiniLM-L6-v2": Curve(0.05, 0.5),
}


@cache
def _probes() -> tuple[tuple[str, Document], ...]:
    """Questions and the tools that answer them, each pair about something else."""
    return tuple(
        (
            probe["question"],
            Document(
                id=tool_id(probe["server"], probe["name"]),
                server=probe["server"],
                name=probe["name"],
                description=probe["description"],
            ),
        )
        for probe in json.loads(_PROBES.read_text("utf-8"))
    )


def measure(encoder: Encoder) -> Curve:
    """Returns the curve of a model from the cosines of its unrelated and its related texts.

    The floor is what six of ten questions have at most with the tools of all
    other questions, good what three of four have at most with their own tool.
    These two statistics give the bundled model nearly the curve that was
    measured for it on retrieval sets. Raises `ModelError`.
    """
    questions = np.stack([encoder.query(question) for question, _ in _probes()])
    cosines = questions @ document_vectors(encoder, [tool for _, tool in _probes()]).T
    related = np.diag(cosines)
    others = cosines[~np.eye(len(cosines), dtype=bool)]
    floor = float(np.clip(np.quantile(others, _UNRELATED), -1.0, 1.0 - 2 * _LEAST_SPAN))
    good = float(np.quantile(related, _TYPICAL))
    return Curve(floor, min(max(good, floor + _LEAST_SPAN), 1.0 - _LEAST_SPAN))


class Curves:
    """Every model's curve: known, remembered on the disk, or measured now. Thread-safe."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._found: dict[str, Curve] = {}
        self._lock = threading.Lock()

    def of(self, encoder: Encoder) -> Curve:
        """The curve of an encoder; raises `ModelError` when it has to be measured and cannot."""
        known = CURVES.get(encoder.model) or self._found.get(encoder.name)
        if known is not None:
            return known
        with self._lock:
            if encoder.name not in self._found:
                self._found[encoder.name] = self._read(encoder) or self._measure(encoder)
            return self._found[encoder.name]

    def _measure(self, encoder: Encoder) -> Curve:
        curve = measure(encoder)
        log.debug("%s: %s", encoder.name, curve)
        if self._directory is not None:
            note = {"model": encoder.name, "probes": _version()} | asdict(curve)
            try:
                write_atomically(self._path(encoder), json.dumps(note).encode())
            except OSError as error:
                log.debug("no calibration is kept for %s: %s", encoder.name, error)
        return curve

    def _read(self, encoder: Encoder) -> Curve | None:
        try:
            note = json.loads(self._path(encoder).read_bytes())
            curve = Curve(float(note["floor"]), float(note["good"]))
            same = (note["model"], note["probes"]) == (encoder.name, _version())
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return curve if same and -1 <= curve.floor < curve.good < 1 else None

    def _path(self, encoder: Encoder) -> Path:
        return (self._directory or Path()) / f"calibration-{file_name(encoder.name)}.json"


@cache
def _version() -> str:
    """Returns the version of the probes, and of the way in which tools' texts are put together."""
    return hashlib.sha256(VERSION.encode() + _PROBES.read_bytes()).hexdigest()[:16]
