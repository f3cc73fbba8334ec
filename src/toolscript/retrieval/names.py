"""Names: what is spelled like a tool's name is that tool, whatever the weights.

A query that is a tool's name, its qualified id or its words, however they are
joined, gets similarity 1. One that is nearly a name gets its edit similarity,
but only when it cannot be read as known words: "list files" is a question even
where a tool is called ``list_tiles``. The same goes, a little weaker, for a
name inside a sentence: for what is written like an identifier, or is no word
that any tool knows.
"""

import re
from collections import defaultdict
from dataclasses import dataclass

from toolscript.retrieval.base import Corpus, Query
from toolscript.retrieval.derived import PerDocument
from toolscript.retrieval.fuzzy import FuzzyIndex
from toolscript.retrieval.spelling import Spellings
from toolscript.text import STOP_WORDS, compact, words
from toolscript.types import Document

NEAR = 0.75
"""Least edit similarity of a misspelled name."""
MAX_CHARS = 80
_SHORTEST = 4
IN_SENTENCE = 0.9
"""A name inside a sentence counts this much of one that is the whole query."""
_SHORTEST_IN_SENTENCE = 6
_IDENTIFIER = re.compile(r"[^\W_][_\-.:][^\W_]|[a-z][A-Z]")
MAX_TOKENS = 64
"""Of a longer question only so many words are looked at for names."""


@dataclass(frozen=True, slots=True)
class _Spelled:
    """How one document may be called."""

    compact: frozenset[str]
    """Letters and digits only: alone and after the server's name."""
    literal: frozenset[str]
    """As it stands: for names in symbols only, and to prefer the one meant among near twins."""


def _spelled(document: Document) -> _Spelled:
    alone, qualified = compact(document.name), compact(document.server + document.name)
    literal = {document.name, document.id, f"{document.server}:{document.name}"}
    return _Spelled(
        frozenset({alone, qualified} - {""}), frozenset(name.strip() for name in literal)
    )


@dataclass(frozen=True, slots=True, order=True)
class Named:
    """A name that a query spells."""

    score: float
    """1 for exactly the name; at least what a score is raised to."""
    alike: float
    """How alike the spellings are, in [`NEAR`, 1]."""

    def inside(self) -> "Named":
        """The same name, found inside a question rather than being all of it."""
        return Named(IN_SENTENCE * self.score, self.alike)


_EXACT = Named(1.0, 1.0)


class Names:
    """Makes name indexes; remembers how each document is spelled."""

    def __init__(self) -> None:
        self._spelled = PerDocument(_spelled)

    def index(self, corpus: Corpus, vocabulary: FuzzyIndex) -> "NameIndex":
        """The names of one corpus, whose words ``vocabulary`` knows."""
        return NameIndex(self._spelled.of(corpus), vocabulary)


class NameIndex:
    """The spellings of every document's name."""

    def __init__(self, documents: list[_Spelled], vocabulary: FuzzyIndex) -> None:
        self._rows: defaultdict[str, list[int]] = defaultdict(list)
        self._exact: defaultdict[str, list[int]] = defaultdict(list)
        for row, spelled in enumerate(documents):
            for spelling in spelled.compact:
                self._rows[spelling].append(row)
            for spelling in spelled.literal:
                self._exact[spelling].append(row)
        self._spellings = Spellings(list(self._rows))
        self._vocabulary = vocabulary

    def match(self, query: Query) -> dict[int, Named]:
        """The documents, by row, whose names the query spells."""
        literal = self._exact.get(query.text.strip())
        if literal:
            return dict.fromkeys(literal, _EXACT)
        spelled = query.compact
        if spelled in self._rows:
            return dict.fromkeys(self._rows[spelled], _EXACT)
        whole: dict[int, Named] = {}
        if _SHORTEST <= len(spelled) <= MAX_CHARS and not self._readable(query.words):
            whole = self._near(spelled)
        return whole or self._within(query)

    def _within(self, query: Query) -> dict[int, Named]:
        """Names that single words of a sentence spell."""
        tokens = query.text.split()
        found: dict[int, Named] = {}
        for token in tokens[:MAX_TOKENS] if len(tokens) > 1 else ():
            for row, named in self._token(token).items():
                found[row] = max(named.inside(), found.get(row, named.inside()))
        return found

    def _token(self, token: str) -> dict[int, Named]:
        spelled = compact(token)
        if not _SHORTEST_IN_SENTENCE <= len(spelled) <= MAX_CHARS:
            return {}
        identifier, readable = _IDENTIFIER.search(token), self._readable(words(token))
        if readable and not identifier:
            return {}
        if spelled in self._rows:
            return dict.fromkeys(self._rows[spelled], _EXACT)
        return {} if readable else self._near(spelled)

    def _readable(self, asked: list[str]) -> bool:
        return all(word in STOP_WORDS or self._vocabulary.knows(word) for word in asked)

    def _near(self, spelled: str) -> dict[int, Named]:
        found: dict[int, Named] = {}
        for spelling, similarity in self._spellings.alike(spelled, NEAR):
            named = Named(similarity, similarity)
            for row in self._rows[spelling]:
                found[row] = max(named, found.get(row, named))
        return found
