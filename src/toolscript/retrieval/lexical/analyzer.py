"""Documents taken apart into words, and those into numbers, each document once.

What was taken apart is kept from one process to the next as one row: the words
in the order of their numbers, and the numbers of all documents one after the
other. That row may be behind, and is never wrong: each document stands in it
with its digest, and one that is not in it is taken apart.
"""

import hashlib
import sys
import threading
import unicodedata
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import snowballstemmer  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray

from toolscript.retrieval.base import Corpus
from toolscript.retrieval.per_document_cache import PerDocumentCache
from toolscript.storage.atomic_files import is_file
from toolscript.storage.blob_store import BlobStore
from toolscript.text import words
from toolscript.types import Document

FIELDS = ("name", "title", "server", "description", "parameters", "details")
VERSION = "1"
"""Raised when a document is taken apart differently: what is kept is then of no use any more."""
BEHIND = 20
"""What is kept is written anew once a twentieth of the documents is not in it."""

Numbers = NDArray[np.int32]


class Stemmer:
    """English stems, each word's computed once. Any thread may ask."""

    def __init__(self) -> None:
        stemmer: Any = snowballstemmer.stemmer("english")  # pyright: ignore[reportUnknownMemberType]
        self._stem: Callable[[str], str] = stemmer.stemWord
        self._known: dict[str, str] = {}
        self._lock = threading.Lock()
        module = sys.modules[type(stemmer).__module__]
        path = Path(str(module.__file__))
        size = path.stat().st_size if is_file(path) else 0
        self.identity = f"{module.__name__} {size}"
        """What tells this algorithm from an older or newer one."""

    def __call__(self, word: str) -> str:
        """The stem of a case-folded word."""
        known = self._known.get(word)
        if known is None:
            with self._lock:  # a stemmer writes down what it is at
                known = self._known[word] = self._stem(word)
        return known

    def learn(self, stems: Mapping[str, str]) -> None:
        """Take over stems that this algorithm has found."""
        self._known.update(stems)


class Vocabulary(dict[str, int]):
    """Words and stems as numbers, in the order in which they were first met."""

    def __init__(self, stemmer: Stemmer) -> None:
        super().__init__()
        self.stemmer = stemmer
        self.words: list[str] = []
        self.stems: dict[str, int] = {}
        self.stem_of: list[int] = []
        """By a word's number, its stem's."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self.words)
        self.words.append(word)
        self.stem_of.append(self.stems.setdefault(self.stemmer(word), len(self.stems)))
        return number


class TokenIds(msgspec.Struct, frozen=True, gc=False):
    """A document's words as numbers, one of `FIELDS` after the other, and the fields' lengths."""

    numbers: Numbers
    lengths: Numbers


class _Row(msgspec.Struct, frozen=True, array_like=True):
    """What is kept: see above."""

    words: list[str]
    stems: list[str]
    """By a word's number."""
    documents: list[str]
    lengths: bytes
    """Of each document's fields: int32 [documents, fields]."""
    numbers: bytes
    """Of all documents' words: int32."""


class Analyzer:
    """Takes documents apart. One thread at a time."""

    def __init__(self, stemmer: Stemmer, kept: Callable[[], BlobStore | None]) -> None:
        self.numbering = Vocabulary(stemmer)
        self._kept = kept
        self._recalled: dict[str, TokenIds] | None = None
        """What another process took apart; None until that was asked for."""
        self._fresh = 0
        """So many documents are not in it, or not any more."""
        self._corpus = Corpus(())
        self._documents = PerDocumentCache(self._of)

    def of(self, corpus: Corpus) -> list[TokenIds]:
        """The words of each document, in the corpus' order."""
        if self._recalled is None and len(corpus):
            self._recalled = self._recall()
        found = self._documents.of(corpus.documents)
        self._corpus = corpus
        if self._recalled:
            self._fresh = max(self._fresh, len(self._recalled))  # of what changed or is gone
            self._recalled = {}
        return found

    def start_anew(self) -> None:
        """Forget everything, so that words which no document has any more go."""
        self.numbering = Vocabulary(self.numbering.stemmer)
        self._documents = PerDocumentCache(self._of)

    def keep(self) -> None:
        """Write down what was taken apart last, where much of it is not written down yet."""
        kept, corpus = self._kept(), self._corpus
        if kept is None or self._fresh * BEHIND <= len(corpus):
            return
        found, numbering = self.of(corpus), self.numbering
        row = _Row(
            numbering.words,
            [numbering.stemmer(word) for word in numbering.words],
            [_key(document) for document in corpus.documents],
            np.concatenate([each.lengths for each in found]).tobytes(),
            np.concatenate([each.numbers for each in found]).tobytes(),
        )
        data = msgspec.msgpack.encode(row)
        name = hashlib.sha256(data).hexdigest()
        if kept.sync("words", self._made_by, [name], lambda _: data):
            self._fresh = 0

    def _recall(self) -> dict[str, TokenIds]:
        kept = self._kept()
        rows = kept.load("words", self._made_by) if kept else {}
        if self.numbering or not rows:
            return {}
        row = msgspec.msgpack.decode(next(iter(rows.values())), type=_Row)
        self.numbering.stemmer.learn(dict(zip(row.words, row.stems, strict=True)))
        for word in row.words:
            self.numbering[word]  # pyright: ignore[reportUnusedExpression] - gives it its number
        lengths = np.frombuffer(row.lengths, np.int32).reshape(-1, len(FIELDS))
        numbers = np.frombuffer(row.numbers, np.int32)
        ends = lengths.sum(axis=1).cumsum().tolist()
        starts = [0, *ends[:-1]]
        return {
            document: TokenIds(numbers[start:end], each)
            for document, start, end, each in zip(row.documents, starts, ends, lengths, strict=True)
        }

    @property
    def _made_by(self) -> str:
        return f"{VERSION} {unicodedata.unidata_version} {self.numbering.stemmer.identity}"

    def _of(self, document: Document) -> TokenIds:
        known = self._recalled.pop(_key(document), None) if self._recalled else None
        return known or self._taken_apart(document)

    def _taken_apart(self, document: Document) -> TokenIds:
        self._fresh += 1
        found = [words(text) for text in _fields(document)]
        numbers = map(self.numbering.__getitem__, chain.from_iterable(found))
        lengths = [len(field) for field in found]
        return TokenIds(
            np.fromiter(numbers, np.int32, sum(lengths)), np.array(lengths, dtype=np.int32)
        )


def _key(document: Document) -> str:
    return f"{document.id}\n{document.digest}"


def _fields(document: Document) -> tuple[str, ...]:
    """The texts of `FIELDS`."""
    return (
        document.name,
        document.title,
        document.server,
        document.description,
        " ".join(name for name, _ in document.parameters),
        " ".join(text for _, text in document.parameters if text),
    )
