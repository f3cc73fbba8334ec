"""``Vector.VectorUpdate`` and ``Vector.SearchSkills``: files by path, found by the raw cosine.

The pair searches only files that VectorUpdate has embedded. A file is embedded in
passages, and its score is the best passage's: a whole file says so many things
that no single question is near to it. The texts of updated files are stored; their
vectors are in a cache, and computed again if they are lost or another model answers.
"""

import hashlib
import json
import threading
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from toolscript.config.settings import MAX_QUERY_CHARS
from toolscript.embedding.base import CachedVector, Encoder
from toolscript.embedding.loader import LazyModel
from toolscript.embedding.vector_cache import SqliteVectorCache
from toolscript.errors import ArgumentsError, ModelError, SkillError
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.profiles import cosine_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.skills.confined_reader import ConfinedReader, relative
from toolscript.skills.passages import split
from toolscript.storage.atomic_files import stamp
from toolscript.storage.blob_store import BlobStore
from toolscript.types import BUILTIN, Document, SearchRequest

PASSAGE_CHARS = 400
DECIMALS = 6
_WRITER = "1"
"""Raised when a text is cut differently."""


class VectorPair:
    """The pair, over one sandbox directory. Thread-safe; safe between processes.

    Args:
        sandbox: The directory whose files may be read.
        model: Embeds files and questions.
        store: Keeps the texts of updated files; None keeps them in memory only.
        cache: Opens the vectors' cache, or returns None for none.
    """

    def __init__(
        self,
        sandbox: Path,
        model: LazyModel,
        store: BlobStore | None = None,
        cache: Callable[[], SqliteVectorCache | None] = lambda: None,
    ) -> None:
        self._sandbox = sandbox
        self._model = model
        self._store = store
        self._cache = cache
        self._semantic = SemanticSignal(model, lambda: None, noun="passages")
        self._engine = SearchEngine(cosine_profile(), semantic=self._semantic)
        self._files: dict[str, tuple[str, ...]] = {}
        """The texts of the passages of each file, by path."""
        self._seen = ""
        """The state of the store that the files are of."""
        self._name = ""
        self._vectors: dict[str, CachedVector] = {}
        """This encoder's, by ``path#number``."""
        self._lock = threading.Lock()

    def VectorUpdate(self, path: str) -> str:  # noqa: N802 - the seed's name
        """Read a file of the sandbox, embed it, and keep it in place of its former text.

        ``OK``, or why not: ``VectorUpdate path error: …`` for a ``path`` that leads
        out of the sandbox, ``VectorUpdate read error: …`` for what cannot be
        read, ``VectorUpdate embedding generation failed: …``. Then nothing has
        changed. Raises `ArgumentsError` for what is no text.
        """
        _check("VectorUpdate", "path", path)
        try:
            path = relative(path)
        except SkillError as error:
            return f"VectorUpdate path error: {error}"
        try:
            text = ConfinedReader(self._sandbox).read(path).text
        except SkillError as error:
            return f"VectorUpdate read error: {error}"
        try:
            encoder, passages = self._encoder(), _passages(path, text)
            with self._lock:
                seen, files = self._load()
                self._index(encoder, {**files, path: passages}, seen)
                self._save(path, passages)
        except ModelError as error:
            return f"VectorUpdate embedding generation failed: {error}"
        return "OK"

    def SearchSkills(self, query: str) -> str:  # noqa: N802 - the seed's name
        """The files that are near to ``query``, as JSON: a list of ``path`` and ``score``.

        ``score`` is the cosine of the file's best passage, at least the threshold of
        `cosine_profile`; the nearest file comes first. ``[]`` if there is none. A failure
        is ``SearchSkills embedding generation failed: …``. Raises `ArgumentsError`
        for what is no text, or too long.
        """
        _check("SearchSkills", "query", query)
        try:
            encoder = self._encoder()
            with self._lock:
                seen, files = self._load()
                self._index(encoder, files, seen)
            hits = self._engine.search(SearchRequest(text=query)).hits if query.strip() else ()
        except ModelError as error:
            return f"SearchSkills embedding generation failed: {error}"
        rows = [
            {"path": hit.document.parent_id, "score": round(hit.score, DECIMALS)} for hit in hits
        ]
        return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))

    def _encoder(self) -> Encoder:
        loaded = self._model.get()
        if loaded.encoder is None:
            raise ModelError(loaded.degraded)
        return loaded.encoder

    def _load(self) -> tuple[str, dict[str, tuple[str, ...]]]:
        """The store's state, and every file that this process or another has updated.

        They are read if the store has changed since it was indexed.
        """
        now = stamp([self._store.path]) if self._store else ""
        if self._store is None or now == self._seen:
            return self._seen, self._files
        rows = self._store.load("files", _WRITER)
        decode = msgspec.msgpack.Decoder(tuple[str, ...]).decode
        return now if rows else "", {_row_path(key): decode(row) for key, row in rows.items()}

    def _save(self, path: str, passages: tuple[str, ...]) -> None:
        if self._store is not None:
            data = msgspec.msgpack.encode(passages)
            key = f"{path}\n{hashlib.sha256(data).hexdigest()}"
            self._store.sync(
                "files", _WRITER, [key], lambda _: data, lambda each: _row_path(each) != path
            )

    def _index(self, encoder: Encoder, files: dict[str, tuple[str, ...]], seen: str) -> None:
        """Have the engine search these files, of that state, by vectors of this encoder."""
        if (encoder.name, files) == (self._name, self._files):
            self._seen = seen
            return
        texts = {f"{path}#{n}": text for path in files for n, text in enumerate(files[path])}
        digests = {each: hashlib.sha256(text.encode()).hexdigest() for each, text in texts.items()}
        vectors = self._embed(encoder, texts, digests, files)
        self._name, self._files, self._vectors = encoder.name, files, vectors
        self._seen = seen  # only now: what could not be embedded is looked at again
        self._semantic.take(encoder.name, dict(vectors))
        self._engine.update(
            Document(id=each, parent_id=path_of(each), server=BUILTIN, name=each, digest=digest)
            for each, digest in digests.items()
        )

    def _embed(
        self,
        encoder: Encoder,
        texts: dict[str, str],
        digests: dict[str, str],
        files: Collection[str],
    ) -> dict[str, CachedVector]:
        """Returns the vectors of texts by id; computes those that are not cached, and saves all.

        The cache keeps the vectors of other files than ``files``.
        """
        cache, vectors = self._cache(), dict[str, CachedVector]()
        if cache:
            vectors |= cache.load(encoder.name, digests)
        if encoder.name == self._name:
            vectors |= self._vectors
        cached = {key for key, entry in vectors.items() if entry.digest == digests.get(key)}
        missing = [key for key in texts if key not in cached]
        rows = encoder.documents([texts[key] for key in missing])
        for key, row in zip(missing, rows, strict=True):
            vectors[key] = CachedVector(digests[key], row)
        vectors = {key: vectors[key] for key in texts}
        if cache and missing:
            cache.save(encoder.name, vectors, keep=lambda key: path_of(key) not in files)
        return vectors


def path_of(identifier: str) -> str:
    """Returns the file of a passage's id, ``path#number``."""
    return identifier.rpartition("#")[0]


def _row_path(key: str) -> str:
    """The file of a row's key, which ends with a line feed and a digest; a path may have both."""
    return key.rpartition("\n")[0]


def _check(name: str, parameter: str, value: object) -> None:
    if not isinstance(value, str):
        kind = type(value).__name__
        raise ArgumentsError(f"Vector.{name}: {parameter} is a {kind}; expected a string")
    if len(value) > MAX_QUERY_CHARS:
        raise ArgumentsError(
            f"Vector.{name}: {parameter} has {len(value)} characters; "
            f"at most {MAX_QUERY_CHARS} are taken"
        )


def _passages(path: str, text: str) -> tuple[str, ...]:
    """The texts that are embedded for a file; an empty one has none."""
    markdown = path.casefold().endswith((".md", ".markdown"))
    passages = split(text, PASSAGE_CHARS, headings=markdown)
    return tuple(each.full_text for each in passages)
