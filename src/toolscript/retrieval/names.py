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

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import OSA

from toolscript.retrieval.base import Corpus, Query
from toolscript.retrieval.fuzzy import STOP_WORDS, FuzzyIndex
from toolscript.text import compact, words

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


class NameIndex:
    """The spellings of every document's name."""

    def __init__(self, corpus: Corpus, vocabulary: FuzzyIndex) -> None:
        self._rows: defaultdict[str, list[int]] = defaultdict(list)
        self._exact: defaultdict[str, list[int]] = defaultdict(list)
        for row, document in enumerate(corpus.documents):
            for spelling in {compact(document.name), compact(document.server + document.name)}:
                if spelling:
                    self._rows[spelling].append(row)
            # For names in symbols only, and to prefer the one meant among near twins.
            for spelling in {document.name, document.id, f"{document.server}:{document.name}"}:
                self._exact[spelling.strip()].append(row)
        self._spellings = list(self._rows)
        self._vocabulary = vocabulary

    def match(self, query: Query) -> dict[int, float]:
        """Row → similarity in [`NEAR`, 1] for every name that the query spells."""
        literal = self._exact.get(query.text.strip())
        if literal:
            return dict.fromkeys(literal, 1.0)
        spelled = query.compact
        if spelled in self._rows:
            return dict.fromkeys(self._rows[spelled], 1.0)
        whole: dict[int, float] = {}
        if _SHORTEST <= len(spelled) <= MAX_CHARS and not self._readable(query.words):
            whole = self._near(spelled)
        return whole or self._within(query)

    def _within(self, query: Query) -> dict[int, float]:
        """Names that single words of a sentence spell."""
        tokens = query.text.split()
        found: dict[int, float] = {}
        for token in tokens[:MAX_TOKENS] if len(tokens) > 1 else ():
            for row, similarity in self._token(token).items():
                found[row] = max(IN_SENTENCE * similarity, found.get(row, 0.0))
        return found

    def _token(self, token: str) -> dict[int, float]:
        spelled = compact(token)
        if not _SHORTEST_IN_SENTENCE <= len(spelled) <= MAX_CHARS:
            return {}
        identifier, readable = _IDENTIFIER.search(token), self._readable(words(token))
        if readable and not identifier:
            return {}
        if spelled in self._rows:
            return dict.fromkeys(self._rows[spelled], 1.0)
        return {} if readable else self._near(spelled)

    def _readable(self, asked: list[str]) -> bool:
        return all(word in STOP_WORDS or self._vocabulary.knows(word) for word in asked)

    def _near(self, spelled: str) -> dict[int, float]:
        if not self._spellings:
            return {}
        similarities = process.cdist(
            [spelled],
            self._spellings,
            scorer=OSA.normalized_similarity,
            score_cutoff=NEAR,
            dtype=np.float32,
        )[0]
        found: dict[int, float] = {}
        for position in np.flatnonzero(similarities):
            similarity = round(float(similarities[position]), 6)
            for row in self._rows[self._spellings[position]]:
                found[row] = max(similarity, found.get(row, 0.0))
        return found
