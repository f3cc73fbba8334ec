"""Names: what is spelled like a tool's name is that tool, whatever the weights.

A query that is a tool's name, its qualified id or its words, however they are
joined, gets similarity 1. One that is nearly a name gets its edit similarity,
but only when it cannot be read as known words: "list files" is a question even
where a tool is called ``list_tiles``.
"""

from collections import defaultdict

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import OSA

from toolscript.retrieval.base import Corpus, Query
from toolscript.retrieval.fuzzy import STOP_WORDS, FuzzyIndex
from toolscript.text import compact

NEAR = 0.75
"""Least edit similarity of a misspelled name."""
MAX_CHARS = 80
_SHORTEST = 4


class NameIndex:
    """The spellings of every document's name."""

    def __init__(self, corpus: Corpus, vocabulary: FuzzyIndex) -> None:
        self._rows: defaultdict[str, list[int]] = defaultdict(list)
        for row, document in enumerate(corpus.documents):
            for spelling in {compact(document.name), compact(document.server + document.name)}:
                if spelling:
                    self._rows[spelling].append(row)
        self._exact: defaultdict[str, list[int]] = defaultdict(list)
        for row, document in enumerate(corpus.documents):
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
        if not _SHORTEST <= len(spelled) <= MAX_CHARS or self._readable(query):
            return {}
        return self._near(spelled)

    def _readable(self, query: Query) -> bool:
        return all(word in STOP_WORDS or self._vocabulary.knows(word) for word in query.words)

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
