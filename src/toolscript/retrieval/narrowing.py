"""Narrows a search of very many documents to the few that may be best, for the steps after that.

Each signal scores every document, and the steps that follow look only at the best of each signal,
for the question and for each of its parts, and at what is named or expected. Their scores are
those that they have among all documents.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from toolscript.graph.tool_graph import ToolGraph
from toolscript.retrieval.base import Corpus, EmbeddingIndex, Mask, Query, Ranking, Rows
from toolscript.retrieval.capability import Capability
from toolscript.retrieval.lexical.analyzer import Stemmer
from toolscript.retrieval.lexical.name_matching import NameMatch
from toolscript.retrieval.trace import Capabilities, Expectations, IndexState, Trace, Words
from toolscript.types import SearchRequest

NARROWED_FROM = 20_000
"""Of fewer documents every step looks at all: that is quick enough."""
LISTED = 200
"""So many documents are taken of each list."""
_CHUNK = 64
"""So many values are looked at as one to find the greatest of all."""


def narrow(trace: Trace) -> Trace:
    """Returns the trace of a search whose steps look at few documents.

    It is the same trace where they look at all: among fewer than `NARROWED_FROM`, and where the
    place of any may be asked for.
    """
    state, request = trace.state, trace.request
    every = request.why or request.needed or trace.limit > LISTED // 2
    if len(state.corpus) < NARROWED_FROM or state.corpus.parent_rows is not None or every:
        return trace
    texts = dict.fromkeys(query.text for query in trace.queries)
    names = {text: state.names.match(Query(text), trace.visible) for text in texts}
    learned = state.forecast
    expected = None if learned is None else _Expected.after(request.context, learned)
    rows = np.unique(np.concatenate(list(_lists(trace, names, expected))))
    numbers: list[int] = rows.tolist()
    place = {row: number for number, row in enumerate(numbers)}
    corpus = Corpus(state.corpus.documents[row] for row in numbers)
    reachable = np.isin(rows, trace.reachable, assume_unique=True)
    return replace(
        trace,
        state=IndexState(
            corpus=corpus,
            lexical=_WordsAmong(state.lexical, rows),
            semantic=state.semantic and _VectorsAmong(state.semantic, rows),
            names=FoundNames.among(place, state.names.impersonating, names),
            capabilities=_CapabilitiesAmong(state.capabilities, rows, len(state.corpus)),
            is_action=state.is_action,
            visibility=Reachable(np.flatnonzero(reachable)),
            forecast=None if expected is None else expected.among(rows),
            known=state.known,
        ),
        reachable=np.flatnonzero(reachable),
        rankings=tuple(
            {name: replace(each, scores=each.scores[rows]) for name, each in rankings.items()}
            for rankings in trace.rankings
        ),
        visible=None if trace.visible is None else trace.visible[rows],
    )


def _lists(
    trace: Trace, names: Mapping[str, Mapping[int, NameMatch]], expected: "_Expected | None"
) -> Iterator[Rows]:
    """Yields the rows of each list."""
    state, reachable = trace.state, trace.reachable
    executors = state.capabilities.executors_for(trace.query, reachable)
    yield executors[:LISTED]  # what a shell can do raises them whatever the signals say
    for query, rankings in zip(trace.queries, trace.rankings, strict=True):
        scores = {name: ranking.scores for name, ranking in rankings.items()}
        if "fuzzy" in scores:
            scores["names"] = scores["fuzzy"] * state.lexical.name_coverage(query) ** 2
        for each in scores.values():
            yield _best(each, reachable)
            if executors.size:
                yield _best(each, executors)
            if reachable.size < len(state.corpus):
                # What the caller does not ask about says how good the others are.
                yield _best(each, None)
    for found in names.values():
        yield np.fromiter(found, np.intp, len(found))
    if expected is not None and expected.all is not None:
        yield _best(expected.all, reachable)
        yield expected.beside
    yield np.array(
        [row for each in trace.request.context if (row := state.corpus.rows.get(each)) is not None],
        np.intp,
    )


def _best(scores: NDArray[np.floating], rows: Rows | None) -> Rows:
    """Returns the ``rows`` with the greatest scores above 0, `LISTED` of them; None for all."""
    if rows is not None and rows.size < scores.size:
        return rows[greatest(scores[rows], LISTED)]
    return greatest(scores, LISTED)


def greatest(values: NDArray[np.floating], limit: int) -> Rows:
    """Returns the places of the greatest ``values`` above 0, ``limit`` of them; NaN is none."""
    if np.isnan(values).any():
        values = np.nan_to_num(values)
    whole = values.size - values.size % _CHUNK
    maxima = values[:whole].reshape(-1, _CHUNK).max(axis=1)
    # So many chunks have a value at least that great.
    least = np.partition(maxima, -limit)[-limit] if maxima.size > limit else 0.0
    found = np.flatnonzero(values >= max(least, np.finfo(np.float32).tiny))
    if found.size > limit:
        found = found[np.argpartition(values[found], -limit)[-limit:]]
    return found


@dataclass(frozen=True, slots=True)
class FoundNames:
    """The names that a search's queries spell, found beforehand."""

    impersonating: Container[int]
    matches: Mapping[str, dict[int, NameMatch]]
    """By the text of a query."""

    @classmethod
    def among(
        cls,
        place: Mapping[int, int],
        impersonating: Container[int],
        matches: Mapping[str, Mapping[int, NameMatch]],
    ) -> "FoundNames":
        """Returns those of some rows, which then have the numbers that ``place`` gives them."""
        return cls(
            frozenset(number for row, number in place.items() if row in impersonating),
            {
                text: {place[row]: match for row, match in found.items() if row in place}
                for text, found in matches.items()
            },
        )

    def match(self, query: Query, visible: Mask | None = None) -> dict[int, NameMatch]:  # noqa: ARG002 - all are
        """See `Names.match`."""
        return self.matches.get(query.text, {})


@dataclass(frozen=True, slots=True)
class Reachable:
    """Candidates are visible, all of them; these are of the servers that were asked for."""

    rows: Rows

    def mask(self, request: SearchRequest) -> Mask | None:  # noqa: ARG002
        """See `Visible.mask`."""
        return None

    def reachable(self, request: SearchRequest) -> Rows:  # noqa: ARG002
        """See `Visible.reachable`."""
        return self.rows


class _WordsAmong:
    """The words of some rows."""

    def __init__(self, words: Words, rows: Rows) -> None:
        self.stemmer: Stemmer = words.stemmer
        self.understands = words.understands
        self._words, self._rows = words, rows

    def rank(self, query: Query, visible: Mask | None = None) -> Ranking:
        return _ranked(self._words.rank(query, visible), self._rows)

    def name_coverage(self, query: Query) -> NDArray[np.float32]:
        return self._words.name_coverage(query)[self._rows]

    def evidence(self, query: Query, row: int) -> tuple[str, ...]:
        return self._words.evidence(query, int(self._rows[row]))


@dataclass(frozen=True, slots=True)
class _CapabilitiesAmong:
    """What some rows are for."""

    capabilities: Capabilities
    rows: Rows
    size: int
    """How many rows there are altogether."""

    def label(self, row: int, query: Query) -> str:
        return self.capabilities.label(int(self.rows[row]), query)

    def executors_for(self, query: Query, reachable: Rows) -> Rows:
        found = self.capabilities.executors_for(query, self.rows[reachable])
        return np.searchsorted(self.rows, found)

    def infer_shell(
        self, query: Query, scores: NDArray[np.floating], reachable: Rows
    ) -> tuple[Capability, NDArray[np.floating]] | None:
        every = np.zeros(self.size, scores.dtype)
        every[self.rows] = scores
        found = self.capabilities.infer_shell(query, every, self.rows[reachable])
        return None if found is None else (found[0], found[1][self.rows])


class _VectorsAmong:
    """The vectors of some rows."""

    def __init__(self, index: EmbeddingIndex, rows: Rows) -> None:
        self.understands = index.understands
        self._index, self._rows = index, rows

    @property
    def vectors(self) -> NDArray[np.float32] | None:
        vectors = self._index.vectors
        return None if vectors is None else vectors[self._rows]

    def rank(self, query: Query, visible: Mask | None = None) -> Ranking:
        return _ranked(self._index.rank(query, visible), self._rows)

    def cosines(self, query: Query) -> Ranking:
        return _ranked(self._index.cosines(query), self._rows)

    def evidence(self, query: Query, row: int) -> tuple[str, ...]:
        return self._index.evidence(query, int(self._rows[row]))


def _ranked(ranking: Ranking, rows: Rows) -> Ranking:
    return replace(ranking, scores=ranking.scores[rows])


@dataclass(frozen=True, slots=True)
class _Expected:
    """What the graph expects after one context."""

    graph: ToolGraph
    all: NDArray[np.float64] | None
    """By row; None where the graph says nothing."""
    beside: NDArray[np.intp]
    """The rows that a template connects with the context."""

    @classmethod
    def after(cls, context: Sequence[str], forecast: Expectations) -> "_Expected":
        """Returns what is expected after a context."""
        if not context:
            return cls(forecast.graph, None, np.empty(0, np.intp))
        return cls(
            forecast.graph, forecast.scores(context), forecast.connected(context).astype(np.intp)
        )

    def among(self, rows: Rows) -> "_Expected":
        """Returns what is expected of some rows."""
        found = None if self.all is None else self.all[rows]
        return _Expected(self.graph, found, np.flatnonzero(np.isin(rows, self.beside)))

    def scores(self, context: Sequence[str]) -> NDArray[np.float64] | None:  # noqa: ARG002 - found beforehand
        """See `Expectations.scores`."""
        return self.all

    def connected(self, context: Sequence[str]) -> NDArray[np.intp]:  # noqa: ARG002
        """See `Expectations.connected`."""
        return self.beside
