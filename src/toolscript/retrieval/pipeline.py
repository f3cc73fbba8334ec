"""Scoring: one question over one corpus, from the signals' rankings to one score per document.

    fused  = sense · weighted mean of the signals      (see `fusion`)
    read   = fused + `NAMED` · fuzzy · said² · (1 − fused)
    joined = max((1 − `PARTED`) · read + `PARTED` · part, `ALONE` · part)
    score  = joined, raised for a shell's capabilities, at least a name's similarity

``sense`` is below 1 only where most of the question's words mean nothing to any
signal, ``said`` how much of the document's name the question says. A question of
several parts is read as a whole and part by part; ``part`` is what the part
that is most about a document gives it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors
from toolscript.graph.forecast import Forecast
from toolscript.retrieval.base import Corpus, Query, Ranking, SignalIndex
from toolscript.retrieval.capability import Boosted, CapabilityIndex
from toolscript.retrieval.fusion import Scores, fuse, rounded
from toolscript.retrieval.lexical.bm25f import LexicalIndex
from toolscript.retrieval.lexical.name_matching import NameIndex, NameMatch
from toolscript.retrieval.parents import Rows
from toolscript.retrieval.profiles import Profile
from toolscript.retrieval.rerank import Placed
from toolscript.retrieval.semantic.semantic_index import SemanticIndex
from toolscript.retrieval.subqueries import split

SENSIBLE = 0.5
"""The share of a question's words that have to mean something."""
NAMED = 0.65
"""How much of the way to 1 a score is moved by a perfect word match that says the whole name."""
PARTED = 0.4
"""How much of the score of a question in several parts is its parts'."""
ALONE = 0.8
"""What a part gives counts this much at least, however little the whole is about a document."""


@dataclass(frozen=True, slots=True)
class State:
    """One corpus with everything derived from it: replaced as a whole, never changed."""

    corpus: Corpus
    indexes: dict[str, SignalIndex]
    words: LexicalIndex
    names: NameIndex
    capabilities: CapabilityIndex
    is_action: Callable[[str], bool]
    forecast: Forecast | None = None
    """What comes next; none where nothing is learned."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A question, or one of its parts, over the whole corpus; every array is float32 [n]."""

    query: Query
    rankings: dict[str, Ranking]
    sense: float
    fused: Vectors
    said: Vectors
    raised: Vectors
    """What the name's words added."""
    scores: Vectors


@dataclass(frozen=True, slots=True)
class Scored:
    """One question's scores, with all that they were made of."""

    state: State
    whole: Reading
    parts: tuple[Reading, ...]
    part_of: NDArray[np.intp] | None
    """Per document the part that is most about it; none for a question of one piece."""
    joined: Vectors
    boosted: Boosted
    named: dict[int, NameMatch]
    scores: Scores
    placed: Placed | None = None
    """What the second stage made of the scores; ``scores`` are its own then."""

    @property
    def own(self) -> Scores:
        """The search's own scores, before the second stage."""
        return self.placed.own if self.placed else self.scores

    def reading(self, row: int) -> Reading:
        """The reading that speaks most for a document: the whole question, or one part of it."""
        if self.part_of is None:
            return self.whole
        part = self.parts[int(self.part_of[row])]
        return part if part.scores[row] > self.whole.scores[row] else self.whole


def score(state: State, query: Query, profile: Profile, reachable: Rows) -> Scored:
    """Score every document of the corpus for a question.

    ``reachable`` are the rows that the caller asks about and may see.
    """
    weights = profile.weights
    texts = split(query.text, state.is_action) if profile.subqueries else []
    query = Query(query.text, tuple(texts))
    if profile.raw_cosine:
        return _raw(state, query)
    whole = _read(state, query, weights)
    parts = tuple(_read(state, Query(text, whole=query), weights) for text in texts)
    joined, part_of = _join(whole, parts) if parts else (whole.scores, None)
    boosted = state.capabilities.boost(query, joined, reachable)
    named = _named(state.names, query, texts)
    scores: Vectors = boosted.scores.copy()
    for row, name in named.items():
        scores[row] = max(scores[row], name.score)
        if row in state.names.impersonating and not name.is_exact:
            scores[row] = name.score
    exact = [row for row, name in named.items() if name.is_exact]
    final = rounded(scores)
    final[exact] = 1.0
    return Scored(state, whole, parts, part_of, joined, boosted, named, final)


def _raw(state: State, query: Query) -> Scored:
    """The semantic signal's cosines as they are, 0 where there is none."""
    index = state.indexes["semantic"]
    ranking = index.cosines(query) if isinstance(index, SemanticIndex) else index.rank(query)
    scores: Vectors = np.nan_to_num(ranking.scores)
    none = np.zeros_like(scores)
    whole = Reading(query, {"semantic": ranking}, 1.0, scores, none, none, scores)
    final = scores.astype(np.float64)
    return Scored(state, whole, (), None, scores, Boosted(scores, {}), {}, final)


def _read(state: State, query: Query, weights: Mapping[str, float]) -> Reading:
    rankings = {name: index.rank(query) for name, index in state.indexes.items()}
    sense = _sense(state, query)
    fused = fuse(rankings, weights) * np.float32(sense)
    said = state.words.said(query)
    lexical = rankings["fuzzy"] if "fuzzy" in rankings else state.words.rank(query)
    raised = (NAMED * lexical.scores * said**2 * (1 - fused)).astype(np.float32)
    return Reading(query, rankings, sense, fused, said, raised, fused + raised)


def _sense(state: State, query: Query) -> float:
    """1 where at least half of the query's words mean something to some signal, 0 where none does.

    Any text has a vector, and it is near to some other.
    """
    # The words' index comes last, and to look a word up there costs least.
    words, indexes = query.telling, list(reversed(state.indexes.values()))
    meant = sum(any(index.understands(word) for index in indexes) for word in words)
    return min(1.0, meant / max(1, len(words)) / SENSIBLE)


def _join(whole: Reading, parts: tuple[Reading, ...]) -> tuple[Vectors, NDArray[np.intp]]:
    """The whole's scores and, per document, what its best part gives it.

    A part gives a document its score times the score's share of the part's
    best: so each part lifts its own best document, and little else.
    """
    scores = np.stack([part.scores for part in parts])
    best = np.maximum(scores.max(axis=1, keepdims=True, initial=0.0), 1e-6)
    given = scores * (scores / best)
    part = given.max(axis=0)
    joined = np.maximum((1 - PARTED) * whole.scores + PARTED * part, ALONE * part)
    return joined.astype(np.float32), given.argmax(axis=0)


def _named(names: NameIndex, query: Query, parts: list[str]) -> dict[int, NameMatch]:
    found = names.match(query)
    for part in parts:
        for row, named in names.match(Query(part)).items():
            found[row] = max(named.inside(), found.get(row, named.inside()))
    return found
