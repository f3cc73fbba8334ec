"""Caches what is computed from one document, for as long as the document does not change."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from toolscript.types import Document

T = TypeVar("T")


class PerDocumentCache(Generic[T]):
    """A function of a document, computed again only where the document changed.

    One thread asks; a document that it does not ask for any more is forgotten.
    """

    def __init__(self, compute: Callable[[Document], T]) -> None:
        self._compute = compute
        self._known: dict[str, tuple[Document, T]] = {}

    def of(self, documents: Iterable[Document]) -> list[T]:
        """One value per document, in their order; no two have the same id."""
        known: dict[str, tuple[Document, T]] = {}
        for document in documents:
            entry = self._known.get(document.id)
            if entry is None or (entry[0] is not document and entry[0] != document):
                entry = (document, self._compute(document))
            known[document.id] = entry
        self._known = known
        return [value for _, value in known.values()]
