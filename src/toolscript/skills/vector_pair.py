"""``Vector.VectorUpdate`` and ``Vector.SearchSkills``: files by path, found by the raw cosine.

The pair searches only files that VectorUpdate has embedded. A file is embedded in
passages, and its score is the best passage's: a whole file says so many things
that no single question is near to it. What was updated is remembered on the
disk: the vectors in an embedding cache, the paths in a list beside it, from
which the vectors are computed again where another model answers.
"""

import hashlib
import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from toolscript.config.settings import MAX_QUERY_CHARS
from toolscript.embedding.base import CachedVector, Encoder
from toolscript.embedding.loader import LazyModel
from toolscript.embedding.vector_cache import SqliteVectorCache
from toolscript.errors import ArgumentsError, ModelError, SkillError
from toolscript.skills.confined_reader import ConfinedReader, relative
from toolscript.skills.passages import split
from toolscript.storage.atomic_files import locked, stamp, write_atomically, write_failure
from toolscript.storage.blob_store import LOCK_TIMEOUT_S

log = logging.getLogger(__name__)
THRESHOLD = 0.5
"""The least cosine of a file in the answer."""
PASSAGE_CHARS = 400
DECIMALS = 6
_PARAMETER = {"VectorUpdate": "path", "SearchSkills": "query"}


class VectorPair:
    """The pair, over one sandbox directory. Thread-safe; safe between processes.

    Args:
        sandbox: The directory whose files may be read.
        model: Embeds files and questions.
        cache: Opens the vectors' cache, or returns None for none: then everything is kept in
            memory only.
        registry: The file with the list of what was updated; None keeps no list.
    """

    def __init__(
        self,
        sandbox: Path,
        model: LazyModel,
        cache: Callable[[], SqliteVectorCache | None] = lambda: None,
        registry: Path | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._model = model
        self._cache = cache
        self._registry = registry
        self._paths: list[str] = []
        self._name = ""
        self._entries: dict[str, CachedVector] = {}
        self._seen = ""
        """The state of the files that the entries are of."""
        self._gone: set[str] = set()
        """Files whose vectors are lost and that cannot be read any more."""
        self._lock = threading.Lock()

    def VectorUpdate(self, path: str) -> str:  # noqa: N802 - the seed's name
        """Read a file of the sandbox, embed it, and keep it in place of what was there.

        ``OK``, or why not: ``VectorUpdate path error: …`` for a ``path`` that leads
        out of the sandbox, ``VectorUpdate read error: …`` for what cannot be
        read, ``VectorUpdate embedding generation failed: …``. Then nothing has
        changed. Raises `ArgumentsError` for what is no text.
        """
        _check("VectorUpdate", path)
        try:
            path = relative(path)
        except SkillError as error:
            return f"VectorUpdate path error: {error}"
        try:
            text = ConfinedReader(self._sandbox).read(path).text
        except SkillError as error:
            return f"VectorUpdate read error: {error}"
        try:
            encoder = self._encoder()
            passages = _embedded(encoder, path, text)
            with self._lock:
                self._keep(path, passages, encoder)
        except ModelError as error:
            return f"VectorUpdate embedding generation failed: {error}"
        return "OK"

    def SearchSkills(self, query: str) -> str:  # noqa: N802 - the seed's name
        """The files that are near to ``query``, as JSON: a list of ``path`` and ``score``.

        ``score`` is the cosine of the file's best passage, at least `THRESHOLD`;
        the nearest file comes first. ``[]`` where there is none. A failure is
        ``SearchSkills embedding generation failed: …``. Raises `ArgumentsError`
        for what is no text, or too long.
        """
        _check("SearchSkills", query)
        try:
            encoder = self._encoder()
            vector = encoder.query(query)
            with self._lock:
                self._recall(encoder)
                entries = self._entries
        except ModelError as error:
            return f"SearchSkills embedding generation failed: {error}"
        found = [(path, score) for path, score in _best(entries, vector) if score >= THRESHOLD]
        ordered = sorted(found, key=lambda each: (-each[1], each[0]))
        rows = [{"path": path, "score": round(score, DECIMALS)} for path, score in ordered]
        return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))

    def _encoder(self) -> Encoder:
        loaded = self._model.get()
        if loaded.encoder is None:
            raise ModelError(loaded.degraded)
        return loaded.encoder

    def _keep(self, path: str, passages: dict[str, CachedVector], encoder: Encoder) -> None:
        """Put a file's passages in place of those it had, in memory and on the disk."""
        self._register(path)
        self._recall(encoder)
        others = {each: v for each, v in self._entries.items() if path_of(each) != path}
        self._entries = others | passages
        cache = self._cache()
        if cache is not None:
            cache.save(encoder.name, passages, keep=lambda each: path_of(each) != path)

    def _recall(self, encoder: Encoder) -> None:
        """What is known now, other processes' updates included, by this encoder's vectors."""
        if encoder.name != self._name:
            self._name, self._entries, self._seen, self._gone = encoder.name, {}, "", set()
        cache = self._cache()
        now = stamp([cache.path, *([self._registry] if self._registry else [])]) if cache else ""
        if cache is None or now == self._seen:
            return
        try:
            self._paths = self._registered()
        except OSError as error:
            log.warning("%s cannot be read now: %s", self._registry, error)
            return
        self._seen = now
        self._entries = cache.load(encoder.name)
        known = {path_of(each) for each in self._entries} | self._gone
        for path in self._paths:
            if path not in known:
                self._remake(path, encoder)

    def _remake(self, path: str, encoder: Encoder) -> None:
        """Embed a file that another model has embedded, or whose vectors were lost."""
        try:
            text = ConfinedReader(self._sandbox).read(path).text
        except SkillError as error:
            log.warning("Vector.SearchSkills does not find it any more: %s", error)
            self._gone.add(path)
            return
        passages = _embedded(encoder, path, text)
        self._entries = self._entries | passages
        cache = self._cache()
        if cache is not None:
            cache.save(encoder.name, passages, keep=lambda each: path_of(each) != path)

    def _registered(self) -> list[str]:
        if self._registry is None:
            return self._paths
        try:
            paths: Any = json.loads(self._registry.read_bytes())["paths"]
            return [str(path) for path in paths]
        except (FileNotFoundError, NotADirectoryError):
            return self._paths
        except (ValueError, KeyError, TypeError) as error:
            log.warning("%s cannot be read (%s); it is written again", self._registry, error)
            return self._paths

    def _register(self, path: str) -> None:
        self._paths = list(dict.fromkeys([*self._paths, path]))
        if self._registry is None:
            return
        try:
            with locked(Path(f"{self._registry}.lock"), LOCK_TIMEOUT_S):
                self._paths = sorted({*self._registered(), path})
                note = json.dumps({"version": 1, "paths": self._paths}).encode()
                write_atomically(self._registry, note)
        except OSError as error:
            log.warning(
                "%s cannot be written: %s", self._registry, error, extra=write_failure(error)
            )


def path_of(identifier: str) -> str:
    """Returns the file of a passage's id, ``path#number``."""
    return identifier.rpartition("#")[0]


def _check(name: str, value: object) -> None:
    parameter = _PARAMETER[name]
    if not isinstance(value, str):
        kind = type(value).__name__
        raise ArgumentsError(f"Vector.{name}: {parameter} is a {kind}; expected a string")
    if len(value) > MAX_QUERY_CHARS:
        raise ArgumentsError(
            f"Vector.{name}: {parameter} has {len(value)} characters; "
            f"at most {MAX_QUERY_CHARS} are taken"
        )


def _embedded(encoder: Encoder, path: str, text: str) -> dict[str, CachedVector]:
    """The vectors of a file's passages, by ``path#number``; an empty file has none."""
    markdown = path.casefold().endswith((".md", ".markdown"))
    passages = split(text, PASSAGE_CHARS, headings=markdown)
    texts = [f"{each.heading}\n{each.text}".strip() for each in passages]
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    return {
        f"{path}#{number}": CachedVector(digest, vector)
        for number, vector in enumerate(encoder.documents(texts))
    }


def _best(entries: dict[str, CachedVector], vector: Any) -> list[tuple[str, float]]:
    """Returns each file with its best passage's cosine."""
    if not entries:
        return []
    cosines = np.stack([entry.vector for entry in entries.values()]) @ vector
    best: dict[str, float] = {}
    for identifier, cosine in zip(entries, cosines.tolist(), strict=True):
        path = path_of(identifier)
        best[path] = max(cosine, best.get(path, -1.0))
    return list(best.items())
