"""The engine: signals, names and capabilities over one corpus, answered as hits.

One thread updates; any number search. A search reads the current state once,
so it never sees half of an update.
"""

import heapq
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors
from toolscript.errors import QueryError
from toolscript.retrieval.base import Corpus, Query, Ranking, Signal, SignalIndex
from toolscript.retrieval.capability import Boosted, CapabilityIndex
from toolscript.retrieval.fusion import contributions, fuse
from toolscript.retrieval.fuzzy import FuzzyIndex, Stemmer
from toolscript.retrieval.names import NameIndex
from toolscript.retrieval.profiles import Profile
from toolscript.retrieval.reasons import Evidence, reason
from toolscript.settings import MAX_QUERY_CHARS, OPTION
from toolscript.text import printable
from toolscript.types import Document, Hit, SearchRequest, SearchResult

_Scores: TypeAlias = NDArray[np.float64]
_Rows: TypeAlias = NDArray[np.intp]
DECIMALS = 6
"""Scores are compared and shown to this many decimals, so that 0.35 is not below 0.35."""


@dataclass(frozen=True, slots=True)
class _State:
    """One corpus with everything derived from it: replaced as a whole, never changed."""

    corpus: Corpus
    indexes: dict[str, SignalIndex]
    names: NameIndex
    capabilities: CapabilityIndex


@dataclass(frozen=True, slots=True)
class _Scored:
    """One question's scores over the whole corpus, with their evidence."""

    state: _State
    rankings: dict[str, Ranking]
    scores: _Scores
    named: dict[int, float]
    boosted: Boosted


class SearchEngine:
    """Searches the documents it was last given. Thread-safe; lives as long as the application."""

    def __init__(self, signals: Sequence[Signal], profile: Profile) -> None:
        self.profile = profile
        self._signals = tuple(signals)
        self._stemmer = Stemmer()
        self._writing = threading.Lock()
        self._state = self._derive(Corpus(()))
        self._waiting = 0

    @property
    def indexed(self) -> int:
        """How many documents can be found."""
        return len(self._state.corpus)

    @property
    def waiting(self) -> int:
        """How many documents some signal does not cover yet."""
        return self._waiting

    def update(
        self, documents: Iterable[Document], superseded: Callable[[], bool] = lambda: False
    ) -> None:
        """Search these documents from now on.

        They can be found by what is quick at once, by the rest as it is
        prepared. ``superseded`` is asked between two steps and ends the work
        early: what was prepared so far is kept.
        """
        with self._writing:
            corpus = Corpus(documents)
            self._state = self._derive(corpus)
            try:
                self._prepare(corpus, superseded)
            finally:
                self._waiting = 0

    def _prepare(self, corpus: Corpus, superseded: Callable[[], bool]) -> None:
        for signal in self._signals:
            for waiting in signal.prepare(corpus):
                self._waiting = waiting
                self._refresh(corpus, signal)
                if superseded():
                    return
            self._refresh(corpus, signal)

    def search(self, request: SearchRequest, profile: Profile | None = None) -> SearchResult:
        """The documents that answer, best first, ordered by (−score, id).

        Raises `QueryError` for an empty or oversized query and `RangeError` for
        a limit or threshold outside its range.
        """
        profile = profile or self.profile
        limit, threshold = _bounds(request, profile)
        scored = self._score(_query(request.text), profile)
        allowed = self._allowed(scored.state, request)
        order = _best(scored.scores, allowed, limit)
        passing = [row for row in order if scored.scores[row] >= threshold]
        below = next((row for row in order if 0 < scored.scores[row] < threshold), None)
        return SearchResult(
            hits=tuple(self._hit(scored, profile, row) for row in passing),
            limit=limit,
            threshold=threshold,
            below=None if passing or below is None else self._hit(scored, profile, below),
            degraded=tuple(
                f"{name}: {ranking.silent}"
                for name, ranking in scored.rankings.items()
                if ranking.silent
            ),
        )

    def _derive(self, corpus: Corpus) -> _State:
        indexes = {signal.name: signal.index(corpus) for signal in self._signals}
        found = next((i for i in indexes.values() if isinstance(i, FuzzyIndex)), None)
        vocabulary = found or FuzzyIndex(corpus, self._stemmer)
        return _State(
            corpus=corpus,
            indexes=indexes,
            names=NameIndex(corpus, vocabulary),
            capabilities=CapabilityIndex(corpus, vocabulary.stemmer),
        )

    def _refresh(self, corpus: Corpus, signal: Signal) -> None:
        state = self._state
        indexes = state.indexes | {signal.name: signal.index(corpus)}
        self._state = _State(corpus, indexes, state.names, state.capabilities)

    def _score(self, query: Query, profile: Profile) -> _Scored:
        state = self._state
        rankings = {name: index.rank(query) for name, index in state.indexes.items()}
        boosted = state.capabilities.boost(query, fuse(rankings, profile.weights))
        named = state.names.match(query)
        scores: Vectors = boosted.scores.copy()
        for row, similarity in named.items():
            scores[row] = max(scores[row], similarity)
        exact = [row for row, similarity in named.items() if similarity >= 1]
        return _Scored(state, rankings, _rounded(scores, exact), named, boosted)

    @staticmethod
    def _allowed(state: _State, request: SearchRequest) -> _Rows:
        documents, grant = state.corpus.documents, request.grant
        if not request.servers and grant.is_everything:
            return np.arange(len(documents))
        wanted = set(request.servers) or {document.server for document in documents}
        rows = [r for r, d in enumerate(documents) if d.server in wanted and grant.allows(d.id)]
        return np.array(rows, dtype=np.intp)

    @staticmethod
    def _hit(scored: _Scored, profile: Profile, row: int) -> Hit:
        evidence = Evidence(
            contributions=contributions(scored.rankings, profile.weights, row),
            named=scored.named.get(row, 0.0),
            inferred=scored.boosted.inferred.get(row),
            label=scored.state.capabilities.label(row),
        )
        return Hit(
            document=scored.state.corpus.documents[row],
            score=float(scored.scores[row]),
            reason=reason(evidence),
            signals={
                name: round(float(ranking.scores[row]), DECIMALS)
                for name, ranking in scored.rankings.items()
                if not np.isnan(ranking.scores[row])
            },
        )


def _rounded(scores: Vectors, exact: list[int]) -> _Scores:
    """Scores to `DECIMALS`; only an exact name keeps 1.0, so that nothing ties with it."""
    rounded = np.round(scores.astype(np.float64), DECIMALS)
    np.clip(rounded, 0.0, 1.0 - 10.0**-DECIMALS, out=rounded)
    rounded[exact] = 1.0
    return rounded


def _query(text: str) -> Query:
    # An argument of the command line may hold what is no Unicode text.
    stripped = text.encode(errors="replace").decode().strip()
    if not stripped:
        raise QueryError("the query is empty; say what the tool should do")
    if len(stripped) > MAX_QUERY_CHARS:
        shown = printable(stripped, 40)
        raise QueryError(
            f"the query {shown!r} has {len(stripped)} characters; "
            f"at most {MAX_QUERY_CHARS} are searched, so shorten it"
        )
    return Query(stripped)


def _bounds(request: SearchRequest, profile: Profile) -> tuple[int, float]:
    limit = profile.limit if request.limit is None else request.limit
    threshold = profile.threshold if request.threshold is None else request.threshold
    return (
        OPTION["limit"].parse(limit, "limit"),
        float(OPTION["threshold"].parse(float(threshold), "threshold")),
    )


def _best(
    scores: _Scores,
    allowed: _Rows,
    limit: int,
) -> list[int]:
    """The ``limit`` best allowed rows by (−score, id); rows are sorted by id already."""
    if allowed.size > 4 * limit:
        least = np.partition(scores[allowed], allowed.size - limit)[allowed.size - limit]
        allowed = allowed[scores[allowed] >= least]
    return heapq.nsmallest(limit, allowed.tolist(), key=lambda row: (-scores[row], row))
