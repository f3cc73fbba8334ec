"""The words and names of a search's candidates as the steps of a search read them."""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass

from toolscript.embedding.base import Vectors
from toolscript.retrieval.base import Mask, Query, Ranking, Rows
from toolscript.retrieval.lexical.bm25f import saturated
from toolscript.retrieval.lexical.name_matching import NameMatch
from toolscript.retrieval.trace import Words
from toolscript.types import SearchRequest


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

    @property
    def ranking(self) -> Ranking:
        """The score of each row."""
        return Ranking(saturated(self.totals, self.best))


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
