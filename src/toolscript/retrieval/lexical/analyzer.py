"""The analyzer: takes documents apart into words and stems, as numbers, each document once."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import msgspec
import numpy as np
from numpy.typing import NDArray
from Stemmer import Stemmer as SnowballStemmer  # pyright: ignore[reportUnknownVariableType] - has no types

from toolscript.retrieval.base import DocumentMemo
from toolscript.text.words import words
from toolscript.types import Document

FIELDS = ("name", "title", "server", "description", "parameters", "details")

Numbers: TypeAlias = NDArray[np.int32]
_ROOM = 1024
"""For so many words a vocabulary has room at first."""


MAX_STEMS, MAX_STEM_CHARS = 200_000, 64
"""The most stems that are remembered, and the length of the longest word whose stem is."""


class Stemmer:
    """English stems, remembered. Any thread may ask."""

    def __init__(self) -> None:
        stemmer: Any = cast("Any", SnowballStemmer)("english", 0)  # without its own cache
        self._stem: Callable[[str], str] = stemmer.stemWord
        self._known: dict[str, str] = {}
        self._lock = threading.Lock()

    def __call__(self, word: str) -> str:
        """The stem of a case-folded word."""
        known = self._known.get(word)
        if known is None:
            with self._lock:  # the stemmer keeps the word that it works on
                known = self._stem(word)
                if len(word) <= MAX_STEM_CHARS:
                    if len(self._known) >= MAX_STEMS:
                        self._known.clear()
                    self._known[word] = known
        return known


class Vocabulary(dict[str, int]):
    """Words and stems as numbers, in the order in which they were first met.

    One thread at a time adds words; any number may look words up.
    """

    def __init__(self, stemmer: Stemmer) -> None:
        super().__init__()
        self.stemmer = stemmer
        self.words: list[str] = []
        self.stems: dict[str, int] = {}
        self._stem_of = np.zeros(_ROOM, np.int32)

    @property
    def stem_of(self) -> Numbers:
        """The number of each word's stem: int32 [words]. Words that come later do not change it."""
        return self._stem_of[: len(self.words)]

    def __missing__(self, word: str) -> int:
        number = len(self.words)
        stem = self.stems.setdefault(self.stemmer(word), len(self.stems))
        if number == self._stem_of.size:
            self._stem_of = np.concatenate([self._stem_of, np.zeros_like(self._stem_of)])
        self._stem_of[number] = stem
        self.words.append(word)
        self[word] = number
        return number


class TokenIds(msgspec.Struct, frozen=True, gc=False):
    """A document's words as numbers, one of `FIELDS` after the other, and the fields' lengths."""

    numbers: Numbers
    lengths: Numbers


class Analyzer:
    """Takes documents apart, again only those that changed. One thread at a time."""

    def __init__(self, stemmer: Stemmer) -> None:
        self.vocabulary = Vocabulary(stemmer)
        self._known = DocumentMemo(self._token_ids)

    def of(self, documents: Sequence[Document]) -> list[TokenIds]:
        """Returns the words of each document."""
        return self._known.of(documents)

    def _token_ids(self, document: Document) -> TokenIds:
        fields = [words(text) for text in _texts(document)]
        numbers = [self.vocabulary[word] for field in fields for word in field]
        lengths = [len(field) for field in fields]
        return TokenIds(np.array(numbers, np.int32), np.array(lengths, np.int32))


def _texts(document: Document) -> tuple[str, ...]:
    """The texts of `FIELDS`."""
    return (
        document.name,
        document.title,
        document.server,
        document.description,
        " ".join(name for name, _ in document.parameters),
        " ".join(text for _, text in document.parameters if text),
    )
