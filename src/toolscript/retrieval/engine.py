"""The engine: signals, names and capabilities over one corpus, answered as hits.

One thread updates; any number search. A search reads the current state once,
so it never sees half of an update.
"""

import heapq
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from msgspec.structs import replace as replace_fields

from toolscript.config.settings import MAX_QUERY_CHARS, OPTION
from toolscript.errors import QueryError
from toolscript.graph.forecast import Forecast
from toolscript.graph.learning import Learning
from toolscript.graph.related import relations
from toolscript.retrieval.base import Corpus, Query, Signal, SignalIndex
from toolscript.retrieval.capability import Capabilities
from toolscript.retrieval.fusion import DECIMALS, Scores
from toolscript.retrieval.lexical.bm25f import LexicalSignal
from toolscript.retrieval.lexical.name_matching import Names
from toolscript.retrieval.parents import ParentGroups, Rows
from toolscript.retrieval.pipeline import Scored, State, score
from toolscript.retrieval.profiles import Profile
from toolscript.retrieval.reasons import evidence, explain, reason
from toolscript.retrieval.rerank import place
from toolscript.retrieval.semantic.semantic_index import SemanticIndex
from toolscript.retrieval.subqueries import Actions
from toolscript.storage.gc_tuning import without_collecting
from toolscript.text import compact, printable, words
from toolscript.types import Document, Hit, MissExplanation, SearchRequest, SearchResult

MAX_ALIKE = 50
"""Of so many passages that score alike the words are looked at."""


def _none(word: str) -> bool:
    """That no word is an action, where no question is taken apart."""
    del word
    return False


class SearchEngine:
    """Searches the documents it was last given. Thread-safe; lives as long as the application."""

    def __init__(
        self, signals: Sequence[Signal], profile: Profile, learning: Learning | None = None
    ) -> None:
        self.profile = profile
        self._learning = learning
        self._signals = tuple(signals)
        fuzzy = (signal for signal in signals if isinstance(signal, LexicalSignal))
        self._words = next(fuzzy, None) or LexicalSignal()
        """Knows the corpus' words, whether or not it is one of the signals."""
        self._names = Names()
        self._capabilities = Capabilities(self._words.stemmer)
        self._actions = Actions(self._words.stemmer)
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
        state, query = self._state, _query(request.text)
        limit, threshold = _bounds(request, profile, max(1, len(state.corpus)))
        profile = replace(profile, limit=limit, threshold=threshold)
        reachable = _allowed(state, request)
        scored = _placed(score(state, query, profile, reachable), request, limit, reachable)
        allowed = _leaders(scored, reachable)
        order = _best(scored.scores, allowed, limit)
        surest = np.maximum(scored.scores, scored.own)  # a context keeps nothing out
        passing = [row for row in order if surest[row] >= threshold]
        below = next((row for row in order if 0 < surest[row] < threshold), None)

        def hit(row: int) -> Hit:
            return _hit(scored, profile, row, request, explained=request.explain)

        return SearchResult(
            hits=tuple(map(hit, passing)),
            limit=limit,
            threshold=threshold,
            below=None if passing or below is None else hit(below),
            degraded=tuple(
                f"{name}: {ranking.silent}"
                for name, ranking in scored.whole.rankings.items()
                if ranking.silent
            ),
            why=_whereabouts(scored, profile, allowed, request) if request.why else None,
            alpha=scored.placed.alpha if scored.placed else 1.0,
            edges=self._learning.graph.edges_within(request.grant) if self._learning else 0,
        )

    @without_collecting()
    def _derive(self, corpus: Corpus) -> State:
        words = self._words.index(corpus)
        indexes = {signal.name: signal.index(corpus) for signal in self._signals}
        return State(
            corpus=corpus,
            indexes=indexes,
            forecast=self._forecast(corpus, indexes),
            words=words,
            names=self._names.index(corpus, words),
            capabilities=self._capabilities.index(corpus),
            is_action=self._actions.index(corpus) if self.profile.subqueries else _none,
        )

    def _refresh(self, corpus: Corpus, signal: Signal) -> None:
        indexes = self._state.indexes | {signal.name: signal.index(corpus)}
        forecast = self._forecast(corpus, indexes)
        self._state = replace(self._state, indexes=indexes, forecast=forecast)

    def _forecast(self, corpus: Corpus, indexes: Mapping[str, SignalIndex]) -> Forecast | None:
        if self._learning is None:
            return None
        semantic = (index for index in indexes.values() if isinstance(index, SemanticIndex))
        vectors = next((index.vectors for index in semantic), None)
        return self._learning.set_corpus(
            [each.id for each in corpus.documents],
            [each.server for each in corpus.documents],
            vectors,
        )


def _placed(scored: Scored, request: SearchRequest, limit: int, reachable: Rows) -> Scored:
    """With the second stage behind it, where the request asks for that."""
    forecast = scored.state.forecast
    if forecast is None or not (request.context or request.needed):
        return scored
    request = replace_fields(request, limit=limit)
    placed = place(scored.scores, scored.state.corpus, forecast, request, reachable)
    return replace(scored, scores=placed.scores, placed=placed)


def _hit(
    scored: Scored, profile: Profile, row: int, request: SearchRequest, *, explained: bool
) -> Hit:
    identifier, forecast = scored.state.corpus.documents[row].id, scored.state.forecast
    known, placed = scored.state.corpus.rows, scored.placed
    related = forecast and relations(
        forecast.graph, identifier, lambda each: each in known and request.grant.allows(each)
    )
    said = placed.graph if placed else None
    return Hit(
        document=scored.state.corpus.documents[_shown(scored, row)],
        score=float(scored.scores[row]),
        own=float(placed.own[row]) if placed else None,
        related=related or None,
        reason=reason(evidence(scored, profile.weights, row)),
        signals={
            name: round(float(ranking.scores[row]), DECIMALS)
            for name, ranking in scored.whole.rankings.items()
            if not np.isnan(ranking.scores[row])
        }
        | ({} if said is None else {"graph": round(float(said[row]), DECIMALS)}),
        explanation=explain(scored, profile.weights, row) if explained else None,
    )


def _shown(scored: Scored, row: int) -> int:
    """The row itself; for a whole its best passage, where it has some.

    Of passages that score alike, the one with most of the question's words.
    """
    wholes, document = scored.state.corpus.wholes, scored.state.corpus.documents[row]
    if wholes is None or document.parent_id != document.id:
        return row
    passages = np.flatnonzero(wholes == row)[1:]
    if not passages.size:
        return row
    scores = scored.scores[passages]
    best: list[int] = passages[scores == scores.max()][:MAX_ALIKE].tolist()
    return max(best, key=lambda each: _in_common(scored, each)) if len(best) > 1 else best[0]


def _in_common(scored: Scored, row: int) -> int:
    document, stem = scored.state.corpus.documents[row], scored.state.words.stemmer
    said = {stem(word) for word in words(f"{document.title} {document.description}")}
    return sum(stem(word) in said for word in scored.whole.query.telling)


def _whereabouts(
    scored: Scored, profile: Profile, allowed: Rows, request: SearchRequest
) -> MissExplanation | None:
    """Where the tool of that id or name ended up; None where the caller knows no such tool."""
    spelled = compact(request.why)
    rows = [
        row
        for row, document in enumerate(scored.state.corpus.documents)
        if spelled in {compact(document.id), compact(document.name)}
        and request.grant.allows(document.id)
    ]
    if not rows:
        return None
    row = min(rows, key=lambda row: (-scored.scores[row], row))
    identifier = scored.state.corpus.documents[row].id
    if row not in allowed:
        server = scored.state.corpus.documents[row].server
        verdict = f"it is not among the servers that were asked for; its server is {server}"
        return MissExplanation(id=identifier, verdict=verdict)
    own = scored.scores[row]
    rank = 1 + int((scored.scores[allowed] > own).sum())
    rank += int((scored.scores[allowed[allowed < row]] == own).sum())
    hit = _hit(scored, profile, row, request, explained=True)
    return MissExplanation(
        id=identifier, rank=rank, hit=hit, verdict=_verdict(profile, float(own), rank)
    )


def _verdict(profile: Profile, own: float, rank: int) -> str:
    if own < profile.threshold:
        return (
            f"its confidence {own:.2f} is below the threshold {profile.threshold:g}; "
            f"--threshold {int(own * 100) / 100:g} would let it pass"
        )
    if profile.limit is not None and rank > profile.limit:
        return f"it is number {rank}, and {profile.limit} are shown; --limit {rank} would show it"
    return f"it is shown, as number {rank}"


def _allowed(state: State, request: SearchRequest) -> Rows:
    documents, grant = state.corpus.documents, request.grant
    if not request.servers and grant.is_everything:
        return np.arange(len(documents))
    wanted = set(request.servers) or {document.server for document in documents}
    rows = [
        r
        for r, d in enumerate(documents)
        if d.server in wanted and grant.allows(d.parent_id or d.id)
    ]
    return np.array(rows, dtype=np.intp)


def _leaders(scored: Scored, rows: Rows) -> Rows:
    """Of each whole the best of these rows."""
    corpus = scored.state.corpus
    groups = corpus.groups
    if groups is None or corpus.wholes is None:
        return rows
    if rows.size < len(corpus):
        groups = ParentGroups.among(rows, corpus.wholes[rows])
    return groups.leaders(scored.scores)


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


def _bounds(request: SearchRequest, profile: Profile, most: int) -> tuple[int, float]:
    limit = profile.limit if request.limit is None else request.limit
    threshold = profile.threshold if request.threshold is None else request.threshold
    return (
        most if limit is None else OPTION["limit"].parse(limit, "limit"),
        float(OPTION["threshold"].parse(float(threshold), "threshold")),
    )


def _best(scores: Scores, allowed: Rows, limit: int) -> list[int]:
    """The ``limit`` best allowed rows by (−score, id); rows are sorted by id already."""
    above = allowed[scores[allowed] > 0]
    if above.size >= limit:  # most score nothing, and so many ties are slow to select from
        allowed = above
    if allowed.size > 4 * limit:
        least = np.partition(scores[allowed], allowed.size - limit)[allowed.size - limit]
        allowed = allowed[scores[allowed] >= least]
    return heapq.nsmallest(limit, allowed.tolist(), key=lambda row: (-scores[row], row))
