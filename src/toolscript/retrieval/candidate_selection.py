"""Selects the candidates of a search of very many documents: the few that may be best.

The steps of a search then look at the best of each signal, for the question and for each of its
parts, and at what is named or expected. Their scores are those that they have among all documents,
as long as each signal's best are among the candidates.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors
from toolscript.graph.tool_graph import ToolGraph
from toolscript.retrieval.base import (
    VERY_MANY,
    EmbeddingIndex,
    Mask,
    Plan,
    Query,
    Ranking,
    Rows,
    SelectedCorpus,
)
from toolscript.retrieval.capability import Capability
from toolscript.retrieval.lexical.bm25f import saturated
from toolscript.retrieval.lexical.name_matching import NameMatch
from toolscript.retrieval.top_k import greatest
from toolscript.retrieval.trace import Capabilities, Expectations, IndexState, Words
from toolscript.types import SearchRequest

LISTED = 120
"""So many documents are taken of each signal's list; twice as many as hits, where that is more."""


def select_candidates(state: IndexState, plan: Plan) -> IndexState:
    """Returns the candidates of a search, with the statistics of all documents.

    It is the same state where all are candidates: fewer than `VERY_MANY`, passages, where some are
    not embedded yet, and where the place of any may be asked for.
    """
    request, corpus = plan.request, state.corpus
    if plan.limit is None or request.why or request.needed or plan.profile.raw_cosine:
        return state
    if len(corpus) < VERY_MANY or corpus.parent_rows is not None:
        return state
    listed = max(LISTED, 2 * plan.limit)
    visible, reachable = state.visibility.mask(request), state.visibility.reachable(request)
    asked = visible
    if request.servers:
        asked = _mask(reachable, len(corpus))
    masks = [visible] if asked is visible else [visible, asked]
    executors = state.capabilities.executors_for(plan.queries[0], reachable)
    lists = [executors[:listed]]  # what a shell can do raises them whatever the signals say
    if executors.size:
        masks.append(_mask(executors, len(corpus)))
    if state.semantic is not None:
        nearest = _nearest(state.semantic, plan.queries, masks, listed)
        if nearest is None:
            return state
        lists += nearest
    found = {query.text: QueryWords.of(state.lexical, query, visible) for query in plan.queries}
    lists += [
        rows for each in found.values() for mask in masks for rows in each.best_rows(mask, listed)
    ]
    names = state.names.match({query.original for query in plan.queries}, visible)
    lists += [np.fromiter(each, np.intp, len(each)) for each in names.values()]
    expected = None
    if state.forecast is not None:
        expected = _Expected.after(request.context, state.forecast)
        lists += [rows for mask in masks for rows in expected.best(mask, listed)]
        used = (corpus.rows.get(each, -1) for each in request.context)
        lists.append(np.array([row for row in used if row >= 0], np.intp))
    selected = _mask(np.concatenate(lists), len(corpus))
    rows = np.flatnonzero(selected if visible is None else selected & visible)
    within = np.arange(rows.size) if asked is None else np.flatnonzero(asked[rows])
    return _among(state, rows, within, found=found, names=names, expected=expected)


def _mask(rows: Rows, size: int) -> Mask:
    mask = np.zeros(size, np.bool_)
    mask[rows] = True
    return mask


def _nearest(
    index: EmbeddingIndex, queries: Sequence[Query], masks: Sequence[Mask | None], listed: int
) -> list[Rows] | None:
    """Returns the rows that are nearest to each query; None if not all can be compared."""
    lists: list[Rows] = []
    for query in queries:
        for mask in masks:
            nearest = index.nearest(query, mask, listed)
            if nearest is None:
                return None
            lists.append(nearest)
    return lists


def _among(  # noqa: PLR0913 - what was found, each by its name
    state: IndexState,
    rows: Rows,
    within: Rows,
    *,
    found: Mapping[str, "QueryWords"],
    names: Mapping[str, Mapping[int, NameMatch]],
    expected: "_Expected | None",
) -> IndexState:
    """Returns the state of some rows; those at the places ``within`` are asked about."""
    corpus = SelectedCorpus(state.corpus, rows)
    named = sorted({row for each in names.values() for row in each})
    place = dict(zip(named, np.searchsorted(rows, named).tolist(), strict=True))
    words = {text: each.among(rows) for text, each in found.items()}
    return IndexState(
        corpus=corpus,
        lexical=FoundWords(state.lexical, rows, words),
        semantic=state.semantic and state.semantic.among(corpus.documents, rows),
        names=FoundNames.among(place, state.names.impersonating, names),
        capabilities=_CapabilitiesAmong(state.capabilities, rows, len(state.corpus)),
        is_action=state.is_action,
        visibility=Reachable(within),
        forecast=None if expected is None else expected.among(rows),
        known=state.known,
    )


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

    def match(
        self,
        texts: Iterable[str],
        visible: Mask | None = None,  # noqa: ARG002 - all are
    ) -> dict[str, dict[int, NameMatch]]:
        """See `Names.match`."""
        return {text: self.matches.get(text, {}) for text in texts}


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


@dataclass(frozen=True, slots=True)
class QueryWords:
    """What the words of one query say of n rows."""

    totals: Vectors
    """See `Words.totals`."""
    best: float
    """The greatest total, perhaps of another row."""
    coverage: Vectors
    """See `Words.name_coverage`."""

    @classmethod
    def of(cls, words: Words, query: Query, visible: Mask | None) -> "QueryWords":
        """Returns what the words say of all rows; of those that are not ``visible`` nothing."""
        totals = words.totals(query)
        totals = totals if visible is None else totals * visible
        return cls(totals, float(totals.max(initial=0.0)), words.name_coverage(query))

    @property
    def ranking(self) -> Ranking:
        """The score of each row."""
        return Ranking(saturated(self.totals, self.best))

    def best_rows(self, mask: Mask | None, listed: int) -> Iterator[Rows]:
        """Yields the best rows of a mask, and those whose names raise them most."""
        yield greatest(self.totals if mask is None else self.totals * mask, listed)
        named = np.flatnonzero(self.coverage > 0)  # of truth values it takes an eighth
        named = named if mask is None else named[mask[named]]
        scores = saturated(self.totals[named], self.best)
        yield named[greatest(scores * self.coverage[named] ** 2, listed)]

    def among(self, rows: Rows) -> "QueryWords":
        """Returns what the words say of some of the rows."""
        return QueryWords(self.totals[rows], self.best, self.coverage[rows])


@dataclass(frozen=True, slots=True)
class FoundWords:
    """The words of some rows."""

    words: Words
    rows: Rows
    found: Mapping[str, QueryWords]
    """By the text of a query."""

    @property
    def stemmer(self) -> Callable[[str], str]:
        """See `Words.stemmer`."""
        return self.words.stemmer

    def totals(self, query: Query) -> Vectors:
        """See `Words.totals`."""
        return self.found[query.text].totals

    def understands(self, word: str) -> bool:
        """See `Words.understands`."""
        return self.words.understands(word)

    def knows(self, word: str) -> bool:
        """See `Words.knows`."""
        return self.words.knows(word)

    def rank(self, query: Query, visible: Mask | None = None) -> Ranking:  # noqa: ARG002 - all are
        """See `Words.rank`."""
        return self.found[query.text].ranking

    def name_coverage(self, query: Query) -> Vectors:
        """See `Words.name_coverage`."""
        return self.found[query.text].coverage

    def evidence(self, query: Query, row: int) -> tuple[str, ...]:
        """See `Words.evidence`."""
        return self.words.evidence(query, int(self.rows[row]))


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


@dataclass(frozen=True, slots=True)
class _Expected:
    """What the graph expects after one context."""

    graph: ToolGraph
    all: NDArray[np.float64] | None
    """By row; None if the graph says nothing."""
    beside: NDArray[np.intp]
    """The rows that a template connects with the context."""

    @classmethod
    def after(cls, context: Sequence[str], forecast: Expectations) -> "_Expected":
        """Returns what is expected after a context."""
        if not context:
            return cls(forecast.graph, None, np.empty(0, np.intp))
        beside = forecast.connected(context).astype(np.intp)
        return cls(forecast.graph, forecast.scores(context), beside)

    def best(self, mask: Mask | None, listed: int) -> Iterator[Rows]:
        """Yields the rows of a mask that are expected most."""
        if self.all is not None:
            yield greatest(self.all if mask is None else self.all * mask, listed)
        yield self.beside

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
