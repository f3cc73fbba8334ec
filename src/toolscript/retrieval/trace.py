"""The trace of one search: a column of scores per step, with each step's evidence by row.

The reason of a hit and its explanation are read from the trace, so nothing is
computed again to be explained.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors
from toolscript.graph.forecast import Forecast
from toolscript.retrieval.base import Corpus, Mask, Query, Ranking, Rows
from toolscript.retrieval.capability import CapabilityIndex
from toolscript.retrieval.fusion import DECIMALS, Scores, round_scores, shares
from toolscript.retrieval.lexical.bm25f import LexicalIndex
from toolscript.retrieval.lexical.name_matching import NameIndex
from toolscript.retrieval.semantic.semantic_index import SemanticIndex
from toolscript.retrieval.visibility import Visibility
from toolscript.text.display import printable
from toolscript.types import Explanation, ScoreChange, SearchRequest, Share

_PHRASES = {"semantic": "Semantic similarity", "fuzzy": "Fuzzy match"}
_SUBQUERY_CHARS = 40


@dataclass(frozen=True, slots=True)
class IndexState:
    """The documents that are scored with everything derived from them: replaced, never changed."""

    corpus: Corpus
    lexical: LexicalIndex
    semantic: SemanticIndex | None
    names: NameIndex
    capabilities: CapabilityIndex
    is_action: Callable[[str], bool] | None
    """Whether a word begins the texts of some tools; None if questions are not split."""
    visibility: Visibility
    forecast: Forecast | None
    """The probabilities of the next tool; None if nothing is learned."""
    imitations: dict[bytes, Mask | None] = field(
        default_factory=dict[bytes, Mask | None], init=False
    )
    """The tools of servers that imitate others, by the rows that callers see: see `copies`."""

    def knows(self, word: str) -> bool:
        """Whether some document has a word, in whatever form."""
        return self.lexical.knows(word)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of one step about one document."""

    step: str = ""
    """The step's name as ``--explain`` prints it; empty leaves it out there."""
    text: str = ""
    phrase: str = ""
    """The reason line; empty keeps that of the steps before."""
    signals: Mapping[str, float] = field(default_factory=dict[str, float])
    """Scores of single signals that a hit shows."""
    remark: str = ""
    """A remark that the reason line ends with."""


@dataclass(frozen=True, slots=True)
class Column:
    """The scores after one step, and its evidence."""

    scores: NDArray[np.floating]
    """[queries, n], the question's row first; [1, n] once the others are blended in."""
    evidence: Callable[[int], Evidence | None]
    """Returns the evidence about a row; None if there is none."""
    alpha: float | None = None
    """The weight of the column before in this one; None but for that of `relate_to_context`."""


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
    """The question, then each of its subqueries, then each of its meanings."""
    rankings: tuple[Mapping[str, Ranking], ...]
    """The ranking of each signal, by query."""
    visible: Mask | None = None
    """The rows that the caller may see; None if these are all."""
    columns: list[Column] = field(default_factory=list[Column])
    weighed: tuple[Mapping[str, float], ...] = ()
    """Per query the weights that its word match has led to; empty if it had no say."""
    name_boost: Vectors | None = None
    """The name boost: float32 [queries, n]."""

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

    @cached_property
    def means(self) -> Scores:
        """The weighted means of the signals, as scores are rounded: float64 [n]."""
        return round_scores(self.columns[0].scores[0])

    @property
    def own(self) -> Scores | None:
        """The scores before `relate_to_context`: float64 [n]; None if that did not run."""
        return None if self.columns[-1].alpha is None else self.columns[-2].scores[0]

    @property
    def alpha(self) -> float:
        """The weight of the search's own scores beside the graph; 1 if it says nothing."""
        alpha = self.columns[-1].alpha
        return 1.0 if alpha is None else alpha

    @cached_property
    def edges(self) -> int:
        """How many edges of the graph the caller may see."""
        forecast = self.state.forecast
        return forecast.graph.edges_within(self.request.grant) if forecast else 0

    def evidence(self, row: int) -> Iterator[tuple[Column, Evidence]]:
        """Yields the evidence about a document, in the steps' order."""
        for column in self.columns:
            evidence = column.evidence(row)
            if evidence is not None:
                yield column, evidence

    def reason(self, row: int) -> str:
        """One line, such as ``Semantic similarity (file operations)``.

        It is the last step's phrase, with the remarks of all.
        """
        evidence = [each for _, each in self.evidence(row)]
        phrase = [each.phrase for each in evidence if each.phrase][-1]
        return "; ".join([phrase, *(each.remark for each in evidence if each.remark)])

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
            fused=float(self.means[row]),
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
        """Returns the reason line about the signals, for the query of this number."""
        query, rankings = self.queries[number], self.rankings[number]
        boost = 0.0 if self.name_boost is None else float(self.name_boost[number, row])
        label = self.state.capabilities.label(row, query)
        weights = shares(rankings, self.weighed[number] if self.weighed else self.weights, row)
        added = {name: weights[name] * float(rankings[name].scores[row]) for name in weights}
        return signal_phrase(added, boost, label, query.text if number else "")


def signal_phrase(
    added: Mapping[str, float], name_boost: float = 0.0, label: str = "", subquery: str = ""
) -> str:
    """Returns the signal that adds most to a score, the capability, and the subquery.

    The name boost is the lexical signal's. ``subquery`` is the
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
