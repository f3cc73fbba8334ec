"""The trace of one search: a column of scores per step, with each step's evidence by row.

The reason of a hit and its explanation are read from the trace, so nothing is
computed again to be explained.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors
from toolscript.graph.tool_graph import ToolGraph
from toolscript.retrieval.base import Corpus, Mask, Query, Ranking, Rows
from toolscript.retrieval.capability import Capability
from toolscript.retrieval.fusion import DECIMALS, Scores, shares
from toolscript.retrieval.lexical.name_matching import NameMatch
from toolscript.retrieval.semantic.semantic_index import SemanticIndex
from toolscript.text.display import printable
from toolscript.types import Explanation, ScoreChange, SearchRequest, Share

_PHRASES = {"semantic": "Semantic similarity", "fuzzy": "Fuzzy match"}
_SUBQUERY_CHARS = 40


class Names(Protocol):
    """The spellings of documents' names."""

    @property
    def impersonating(self) -> Container[int]:
        """The documents, by row, that are named like another's id."""
        ...

    def match(
        self, texts: Iterable[str], visible: Mask | None = None
    ) -> dict[str, dict[int, NameMatch]]:
        """Returns, by text and by row, the ``visible`` documents whose names each text spells."""
        ...


class Visible(Protocol):
    """Which rows a caller may see."""

    def mask(self, request: SearchRequest) -> Mask | None:
        """Returns which rows may be found by the caller; None if all may."""
        ...

    def reachable(self, request: SearchRequest) -> Rows:
        """Returns the rows that the caller may see, of the servers that it asks about."""
        ...


class Words(Protocol):
    """The words of documents."""

    @property
    def stemmer(self) -> Callable[[str], str]:
        """Returns the stem of a word."""
        ...

    def rank(self, query: Query, visible: Mask | None = None) -> Ranking:
        """Returns what the words in common say; of rows that are not ``visible`` 0."""
        ...

    def totals(self, query: Query) -> Vectors:
        """Returns each document's score before it is scaled by the best: float32 [n]."""
        ...

    def understands(self, word: str) -> bool:
        """Whether some document has the word, or one that it may be a typo of."""
        ...

    def knows(self, word: str) -> bool:
        """Whether some document has the word, in whatever form."""
        ...

    def name_coverage(self, query: Query) -> Vectors:
        """Returns how much of each document's name the query says: float32 [n] in [0, 1]."""
        ...

    def evidence(self, query: Query, row: int) -> tuple[str, ...]:
        """Returns the words in common, strongest first, each with its share of the match."""
        ...


class Capabilities(Protocol):
    """What documents are for."""

    def label(self, row: int, query: Query) -> str:
        """Returns in two words what of the question a document is for; empty for nothing."""
        ...

    def executors_for(self, query: Query, reachable: Rows) -> Rows:
        """Returns the ``reachable`` rows that run commands, where a shell can do what is asked."""
        ...

    def infer_shell(
        self, query: Query, scores: NDArray[np.floating], reachable: Rows
    ) -> tuple[Capability, NDArray[np.floating]] | None:
        """Returns the capability that only a shell has, and scores with the shells raised."""
        ...


class Expectations(Protocol):
    """What the graph expects of documents."""

    @property
    def graph(self) -> ToolGraph:
        """What was learned."""
        ...

    def scores(self, context: Sequence[str]) -> Scores | None:
        """Returns how likely each document is to be next: see `Forecast.scores`."""
        ...

    def connected(self, context: Sequence[str]) -> NDArray[np.integer]:
        """Returns the rows that a template puts beside the context: see `Forecast.connected`."""
        ...


@dataclass(frozen=True, slots=True)
class IndexState:
    """The documents that are scored with everything derived from them: replaced, never changed.

    They are all documents of a catalogue, or candidates of a search. Statistics are of all.
    """

    corpus: Corpus
    lexical: Words
    semantic: SemanticIndex | None
    names: Names
    capabilities: Capabilities
    is_action: Callable[[str], bool] | None
    """Whether a word begins the texts of some tools; None if questions are not split."""
    visibility: Visible
    forecast: Expectations | None
    """The probabilities of the next tool; None if nothing is learned."""
    known: Container[str]
    """The ids of all documents, those that are not scored included."""
    degraded: str = ""
    """Why the documents may not be the best ones; empty if they are."""

    def knows(self, word: str) -> bool:
        """Whether some document has a word, in whatever form."""
        return self.lexical.knows(word)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a step found out about one document."""

    step: str = ""
    """The step's name as ``--explain`` prints it; empty leaves it out there."""
    text: str = ""
    phrase: str = ""
    """What the reason line says; empty keeps what the steps before say."""
    signals: Mapping[str, float] = field(default_factory=dict[str, float])
    """Scores of single signals that a hit shows."""


@dataclass(frozen=True, slots=True)
class Column:
    """The scores after one step, and its evidence."""

    scores: NDArray[np.floating]
    """[queries, n], the question's row first; [1, n] once the subqueries are blended in."""
    evidence: Callable[[int], Evidence | None]
    """By a document's row; None if the step says nothing about it."""
    alpha: float | None = None
    """What the column before weighs in this one; None but for the reranker's."""


@dataclass
class Trace:
    """One search over one state. Row numbers are those of the corpus."""

    state: IndexState
    request: SearchRequest
    weights: Mapping[str, float]
    word_match: bool
    """Whether the weights follow how well the words match."""
    limit: int
    threshold: float
    reachable: Rows
    """The rows that the caller asks about and may see."""
    queries: tuple[Query, ...]
    """The question, then each of its subqueries."""
    rankings: tuple[Mapping[str, Ranking], ...]
    """Per query what each signal says."""
    visible: Mask | None = None
    """The rows that the caller may see; None if these are all."""
    columns: list[Column] = field(default_factory=list[Column])
    weighed: tuple[Mapping[str, float], ...] = ()
    """Per query the weights that its word match has led to; empty if it had no say."""
    name_boost: Vectors | None = None
    """What the words of names have added: float32 [queries, n]."""

    def apply(self, step: "Callable[[Trace], Column | None]") -> None:
        """Run a step and keep its column; None is of a step that changes no score."""
        column = step(self)
        if column is not None:
            self.columns.append(replace(column, evidence=cache(column.evidence)))

    @property
    def query(self) -> Query:
        """The question as a whole."""
        return self.queries[0]

    @property
    def scores(self) -> NDArray[np.floating]:
        """The question's scores after the last step: [n]."""
        return self.columns[-1].scores[0]

    @property
    def own(self) -> Scores | None:
        """The search's own scores: float64 [n]; None if the reranker did not run."""
        return None if self.columns[-1].alpha is None else self.columns[-2].scores[0]

    @property
    def surest(self) -> NDArray[np.floating]:
        """What the threshold is held against: [n]. A context keeps nothing out."""
        return self.scores if self.own is None else np.maximum(self.scores, self.own)

    @property
    def alpha(self) -> float:
        """What the search's own scores weigh beside the graph; 1 where it says nothing."""
        alpha = self.columns[-1].alpha
        return 1.0 if alpha is None else alpha

    @cached_property
    def edges(self) -> int:
        """How many edges of the graph the caller may see."""
        forecast = self.state.forecast
        return forecast.graph.edges_within(self.request.grant) if forecast else 0

    def evidence(self, row: int) -> Iterator[tuple[Column, Evidence]]:
        """What the steps say about a document, in their order."""
        for column in self.columns:
            evidence = column.evidence(row)
            if evidence is not None:
                yield column, evidence

    def reason(self, row: int) -> str:
        """One line, such as ``Semantic similarity (file operations)``: the last step's phrase."""
        return [each.phrase for _, each in self.evidence(row) if each.phrase][-1]

    def signals(self, row: int) -> dict[str, float]:
        """Each signal's own score of a document, `DECIMALS` digits."""
        return {
            name: round(score, DECIMALS)
            for _, each in self.evidence(row)
            for name, score in each.signals.items()
        }

    def explain(self, row: int, *, evidence: bool = True) -> Explanation:
        """How a document's score came about: the mean's shares, and each change after it.

        ``evidence`` says whether the shares have theirs.
        """
        rankings, indexes = (
            self.rankings[0],
            {"fuzzy": self.state.lexical}
            | ({"semantic": self.state.semantic} if self.state.semantic else {}),
        )
        return Explanation(
            fused=_round(self.columns[0].scores[0, row]),
            shares=tuple(
                Share(
                    signal=name,
                    score=_round(rankings[name].scores[row]),
                    weight=round(weight, DECIMALS),
                    evidence=indexes[name].evidence(self.query, row) if evidence else (),
                )
                for name, weight in shares(rankings, self.weights, row).items()
            ),
            steps=tuple(
                ScoreChange(name=each.step, score=_round(column.scores[0, row]), evidence=each.text)
                for column, each in self.evidence(row)
                if each.step
            ),
        )

    def signal_phrase(self, number: int, row: int) -> str:
        """What the reason line says of the signals, for the query of this number."""
        query, rankings = self.queries[number], self.rankings[number]
        boost = 0.0 if self.name_boost is None else float(self.name_boost[number, row])
        label = self.state.capabilities.label(row, query)
        weights = shares(rankings, self.weighed[number] if self.weighed else self.weights, row)
        added = {name: weights[name] * float(rankings[name].scores[row]) for name in weights}
        return signal_phrase(added, boost, label, query.text if number else "")


def signal_phrase(
    added: Mapping[str, float], name_boost: float = 0.0, label: str = "", subquery: str = ""
) -> str:
    """The signal that adds most to a score, what question and document are about, and for what.

    What the words of the name add is the lexical signal's. ``subquery`` is the
    part of the question that speaks for the document; empty for all of it.
    """
    with_boost = dict(added) | ({"fuzzy": added["fuzzy"] + name_boost} if "fuzzy" in added else {})
    best = max(with_boost, key=lambda name: with_boost[name], default="")
    phrase = _PHRASES.get(best, "No signal answered")
    if best == "fuzzy" and name_boost > added[best]:
        phrase += " + name boost"
    wish = f" for “{printable(subquery, _SUBQUERY_CHARS)}”" if subquery else ""
    return phrase + (f" ({label})" if label else "") + wish


def _round(score: np.floating) -> float:
    return round(float(score), DECIMALS)
