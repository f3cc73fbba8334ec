"""The vectors of documents, in memory and in a cache on the disk.

A document's vector is computed again if neither has one of the model in use, of its length, and
with the document's digest.
"""

from collections.abc import Callable, Iterable, Sequence

from toolscript.embedding.base import CachedVector, VectorCache, Vectors
from toolscript.types import SEPARATOR, Document


class VectorStore:
    """The vectors that one model has made. One thread changes them; any thread may read.

    Args:
        open_cache: Opens the cache on the disk, or returns None if there is none.
    """

    def __init__(self, open_cache: Callable[[], VectorCache | None]) -> None:
        self.model = ""
        """The name of the model; empty if none has made a vector yet."""
        self.version = 0
        """The number of changes so far."""
        self._open_cache = open_cache
        self._entries: dict[str, CachedVector] = {}
        self._dim = 0
        """The vectors' length; 0 if there has been none yet."""

    def __len__(self) -> int:
        """Returns the number of documents that have a vector."""
        return len(self._entries)

    def vector(self, document: Document) -> Vectors | None:
        """Returns a document's vector, float32 [dim], of length 1; None if it has none."""
        entry = self._entries.get(document.id)
        return entry.vector if entry is not None and entry.digest == document.digest else None

    def missing(self, documents: Iterable[Document]) -> list[Document]:
        """Returns the documents without a vector, in their order."""
        return [document for document in documents if self.vector(document) is None]

    def replace(self, model: str, vectors: dict[str, CachedVector]) -> None:
        """Replaces all vectors by those of a ``model``, given by document id."""
        self.model, self._entries = model, vectors
        self._dim = next((entry.vector.size for entry in vectors.values()), 0)
        self.version += 1

    def use(self, model: str, dim: int = 0) -> None:
        """Drops all vectors unless a ``model`` made them, and of this length if it is not 0."""
        if model != self.model or (self._dim and dim not in {0, self._dim}):
            self.replace(model, {})
        self._dim = dim or self._dim

    def add(self, documents: Sequence[Document], vectors: Vectors) -> None:
        """Takes the vectors of documents: float32 [documents, dim], unit rows."""
        for document, vector in zip(documents, vectors, strict=True):
            self._entries[document.id] = CachedVector(document.digest, vector)
        self.version += 1

    def load(self, documents: Sequence[Document]) -> int:
        """Takes vectors that are missing from the cache, then from those of other documents.

        Returns the number of vectors taken.
        """
        cache = self._open_cache()
        if cache is None:
            return 0
        count = 0
        for read in (cache.load, cache.load_from_other_caches):
            missing = self.missing(documents)
            if missing:
                count += self._take(missing, read(self.model, _digests(missing)))
        return count

    def exchange(self, documents: Sequence[Document]) -> int:
        """Saves all vectors, and takes those that other processes have saved in the meantime.

        Returns the number of vectors taken.
        """
        cache = self._open_cache()
        if cache is None:
            return 0
        missing, is_away = self.missing(documents), _away(documents)
        digests = _digests(missing)
        cache.save(self.model, self._entries, lambda key: key in digests or is_away(key))
        return self._take(missing, cache.load(self.model, digests))

    def save(self, documents: Sequence[Document]) -> None:
        """Makes the cache hold the vectors, and those of servers that are away."""
        cache = self._open_cache()
        if cache is not None:
            cache.save(self.model, self._entries, keep=_away(documents))

    def prune(self, documents: Sequence[Document]) -> None:
        """Drops the vectors of tools that are gone; those of servers that are away stay."""
        ids, is_away = {document.id for document in documents}, _away(documents)
        gone = [key for key in self._entries if key not in ids and not is_away(key)]
        if gone:
            dropped = set(gone)
            self._entries = {k: e for k, e in self._entries.items() if k not in dropped}

    def _take(self, documents: Sequence[Document], cached: dict[str, CachedVector]) -> int:
        count = 0
        for document in documents:
            entry = cached.get(document.id)
            if entry is None or entry.digest != document.digest:
                continue
            self._dim = self._dim or entry.vector.size
            if entry.vector.size == self._dim:
                self._entries[document.id] = entry
                count += 1
        self.version += bool(count)
        return count


def _digests(documents: Iterable[Document]) -> dict[str, str]:
    """Returns the documents' digests by id."""
    return {document.id: document.digest for document in documents}


def _away(documents: Iterable[Document]) -> Callable[[str], bool]:
    """Returns whether the server of an id has no document at all: not yet, or just now.

    A tool that its server no longer has is gone; a server that is away comes back.
    """
    present = {document.server for document in documents}

    def is_away(identifier: str) -> bool:
        server, separator, _ = identifier.partition(SEPARATOR)
        return bool(separator) and server not in present

    return is_away
