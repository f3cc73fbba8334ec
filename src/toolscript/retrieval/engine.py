"""The engine: searches documents and returns hits.

A search takes the question apart, and then scores every document of the corpus.

One thread updates; any number search. A search reads the current state once,
so it never sees half of an update.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from toolscript.graph.forecast import Forecast
from toolscript.graph.learning import Learning
from toolscript.graph.related import relations
from toolscript.retrieval.base import Corpus, Rows
from toolscript.retrieval.capability import CapabilityIndex, CapabilityReader
from toolscript.retrieval.copies import (
    MAX_BELOW,
    TWINS_GAP,
    AcceptedAt,
    order_namesakes,
    servers_of_twins,
)
from toolscript.retrieval.lexical.bm25f import LexicalSignal
from toolscript.retrieval.lexical.name_matching import NameIndex
from toolscript.retrieval.pipeline import begin, plan, steps_of
from toolscript.retrieval.profiles import SearchProfile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.retrieval.subqueries import actions
from toolscript.retrieval.trace import IndexState, Trace
from toolscript.retrieval.visibility import Visibility
from toolscript.text.words import compact, words
from toolscript.tracing import span
from toolscript.types import Document, Hit, MissExplanation, SearchRequest, SearchResult

NEAREST = 3
"""Number of documents that are named at least: if fewer hits pass the threshold, the next ones."""
MAX_TIED_PASSAGES = 50
"""The number of passages that score alike whose words are compared."""


class SearchEngine:
    """Searches the documents it was last given. Thread-safe; lives as long as the application.

    Args:
        profile: Weights, limit and threshold of a request that states none.
        lexical: The signal that compares words; None makes one.
        semantic: The signal that compares vectors; without it, words are all that is searched.
        learning: Gets each corpus with its vectors, and returns the forecast that searches
            with a context read.
        accepted_at: Returns the Unix time at which the tool of an id was first accepted, 0 if
            none is known; None for none of any.
    """

    def __init__(
        self,
        profile: SearchProfile,
        lexical: LexicalSignal | None = None,
        semantic: SemanticSignal | None = None,
        learning: Learning | None = None,
        *,
        accepted_at: AcceptedAt | None = None,
    ) -> None:
        self.profile = profile
        self._lexical = lexical or LexicalSignal()
        self._semantic = semantic
        self.learning = learning
        self._capabilities = CapabilityReader(self._lexical.stemmer)
        self._writing = threading.Lock()
        self._accepted_at = accepted_at
        self._state = self._index(Corpus(()))
        self._waiting = 0

    @property
    def indexed(self) -> int:
        """How many documents can be found."""
        return len(self._state.corpus)

    @property
    def waiting(self) -> int:
        """How many documents some signal does not cover yet."""
        return self._waiting

    @property
    def is_incomplete(self) -> bool:
        """Whether some documents are to be prepared again, since a model could not be reached."""
        return self._semantic is not None and self._semantic.is_incomplete

    def search(self, request: SearchRequest, profile: SearchProfile | None = None) -> SearchResult:
        """Returns the documents of the corpus that answer, best first, ordered by (−score, id).

        Tools of the same name that nearly tie are ordered as `order_namesakes` says.

        Args:
            request: The question, and the values that its caller prefers to the profile's.
            profile: Used instead of the engine's own.

        Raises:
            QueryError: The query is empty or too long.
            RangeError: The limit, the threshold or α is outside its range.
        """
        profile, state = profile or self.profile, self._state
        planned = plan(request, profile, state)
        trace = begin(state, planned)
        with span("score"):
            for step in steps_of(planned.profile):
                with span(step.__name__):
                    trace.apply(step)
        parents = trace.state.corpus.parent_rows
        candidates = best_per_parent(trace.reachable, parents, trace.scores)
        accepted_at = self._accepted_at if planned.profile.steps == "all" else None
        rows, nearest = select(trace, candidates, accepted_at)
        return SearchResult(
            hits=tuple(hit(trace, row) for row in rows),
            limit=trace.limit,
            threshold=trace.threshold,
            nearest=tuple(hit(trace, row) for row in nearest),
            degraded=tuple(
                f"{name}: {ranking.degraded}"
                for name, ranking in trace.rankings[0].items()
                if ranking.degraded
            ),
            why=why_missing(trace, candidates, accepted_at) if request.why else None,
            alpha=trace.alpha,
            edges=trace.edges,
        )

    def update(
        self, documents: Iterable[Document], superseded: Callable[[], bool] = lambda: False
    ) -> None:
        """Search these documents from now on.

        They can be found by their words at once, and by their vectors as these are computed.

        Args:
            documents: All that is searched; no two have the same id.
            superseded: Asked between two steps. If it returns True the work ends early, and
                the vectors computed so far are kept.
        """
        with self._writing:
            try:
                corpus = Corpus(documents, self._state.corpus)
                self._state = self._index(corpus)
                for waiting in self._semantic.prepare(corpus) if self._semantic else ():
                    self._waiting = waiting
                    self._refresh(corpus)
                    if superseded():
                        return
                self._refresh(corpus)
            finally:
                self._waiting = 0

    def _index(self, corpus: Corpus) -> IndexState:
        lexical = self._lexical.index(corpus)
        semantic = self._semantic.index(corpus) if self._semantic else None
        return IndexState(
            corpus=corpus,
            lexical=lexical,
            semantic=semantic,
            names=NameIndex(corpus, lexical),
            capabilities=CapabilityIndex(corpus, self._capabilities),
            is_action=actions(corpus, lexical.stemmer) if self.profile.subqueries else None,
            visibility=Visibility(corpus),
            forecast=self._forecast(corpus),
        )

    def _refresh(self, corpus: Corpus) -> None:
        """Take over the vectors that have been computed since the state was made."""
        before = self._state.semantic
        if self._semantic and before and before.version != self._semantic.version:
            self._state = replace(self._state, semantic=self._semantic.index(corpus))

    def _forecast(self, corpus: Corpus) -> Forecast | None:
        if self.learning is None:
            return None
        return self.learning.set_corpus(corpus.ids, [each.server for each in corpus.documents])


def best_per_parent(rows: Rows, parents: Rows | None, scores: NDArray[np.floating]) -> Rows:
    """Returns the rows; of a parent and its passages only the best, the first of several.

    ``parents`` and ``scores`` have one entry per row of the corpus; ``rows`` are sorted.
    """
    if parents is None:
        return rows
    best = np.full(scores.size, -np.inf)
    np.maximum.at(best, parents[rows], scores[rows])
    leading = rows[scores[rows] == best[parents[rows]]]
    _, first = np.unique(parents[leading], return_index=True)
    return np.sort(leading[first])


def select(
    trace: Trace, candidates: Rows, accepted_at: AcceptedAt | None = None
) -> tuple[list[int], list[int]]:
    """Returns the rows of the hits, and if they are few the next ones, below the threshold.

    Both together are then `NEAREST`, the best first; ``candidates`` are sorted by id already.
    """
    scores = trace.scores[candidates]
    passing = candidates[scores >= trace.threshold]
    hits = _best(trace, passing, trace.limit, accepted_at)
    if passing.size >= NEAREST:
        return hits, []
    others = candidates[(scores > 0) & (scores < trace.threshold)]
    return hits, _best(trace, others, NEAREST - passing.size, accepted_at)


def _best(trace: Trace, rows: Rows, limit: int, accepted_at: AcceptedAt | None) -> list[int]:
    """The first ``limit`` of the rows by (−score, id), and as `order_namesakes` says."""
    scores = trace.scores
    listed, below = (limit + MAX_BELOW, TWINS_GAP) if accepted_at else (limit, 0.0)
    if rows.size > limit:  # sorting ten thousand rows takes as long as ranking them
        shown = scores[rows]
        least = np.partition(shown, rows.size - limit)[rows.size - limit]
        rows = rows[shown >= least - below]
    best: list[int] = rows[np.argsort(-scores[rows], kind="stable")[:listed]].tolist()
    return order_namesakes(best, trace, accepted_at)[:limit] if accepted_at else best


def hit(trace: Trace, row: int, *, explained: bool = False) -> Hit:
    """A row of the result; a parent is shown by its best passage."""
    corpus, forecast, request = trace.state.corpus, trace.state.forecast, trace.request
    document = corpus.documents[row]
    wanted = request.evidence
    with_evidence = explained or wanted is None or (document.parent_id or document.id) in wanted
    related = None
    if forecast is not None:
        related = relations(
            forecast.graph, document.id, lambda tool: tool in corpus.rows and request.shows(tool)
        )
    return Hit(
        document=corpus.documents[_best_passage(trace, row)],
        score=float(trace.scores[row]),
        fused=float(trace.means[row]),
        own=None if trace.own is None else float(trace.own[row]),
        related=related or None,
        twins=servers_of_twins(trace, row),
        reason=trace.reason(row),
        signals=trace.signals(row),
        explanation=trace.explain(row, evidence=with_evidence)
        if explained or request.explain
        else None,
    )


def _best_passage(trace: Trace, row: int) -> int:
    """Returns the row itself; for a parent its best passage, if it has any.

    Of passages that score alike, the one with most of the question's words.
    """
    corpus = trace.state.corpus
    document = corpus.documents[row]
    if corpus.parent_rows is None or document.parent_id != document.id:
        return row
    passages = np.flatnonzero(corpus.parent_rows == row)[1:]
    if not passages.size:
        return row
    scores = trace.scores[passages]
    best: list[int] = passages[scores == scores.max()][:MAX_TIED_PASSAGES].tolist()
    stem = trace.state.lexical.stemmer

    def words_in_common(row: int) -> int:
        document = corpus.documents[row]
        stems = {stem(word) for word in words(f"{document.title} {document.description}")}
        return sum(stem(word) in stems for word in trace.query.content_words)

    return max(best, key=words_in_common) if len(best) > 1 else best[0]


def why_missing(
    trace: Trace, candidates: Rows, accepted_at: AcceptedAt | None = None
) -> MissExplanation | None:
    """Returns the place and score of the tool of ``why``; None if the caller knows no such tool."""
    name, scores, documents = compact(trace.request.why), trace.scores, trace.state.corpus.documents
    rows = [
        row
        for row, document in enumerate(documents)
        if name in {compact(document.id), compact(document.name)}
        and trace.request.shows(document.id)
    ]
    if not rows:
        return None
    row = min(rows, key=lambda row: (-scores[row], row))
    if row not in candidates:
        server = documents[row].server
        verdict = f"it is not among the servers that were asked for; its server is {server}"
        return MissExplanation(id=documents[row].id, verdict=verdict)
    if scores[row] >= trace.threshold:
        candidates = candidates[scores[candidates] >= trace.threshold]
    rank = 1 + _best(trace, candidates, candidates.size, accepted_at).index(row)
    return MissExplanation(
        id=documents[row].id,
        rank=rank,
        hit=hit(trace, row, explained=True),
        verdict=_verdict(trace, float(scores[row]), rank),
    )


def _verdict(trace: Trace, score: float, rank: int) -> str:
    if score < trace.threshold:
        return (
            f"its confidence {score:.2f} is below the threshold {trace.threshold:g}; "
            f"a threshold of {int(score * 100) / 100:g} would let it pass"
        )
    if rank > trace.limit:
        return f"it is number {rank}, and {trace.limit} are shown; a limit of {rank} would show it"
    return f"it is shown, as number {rank}"
