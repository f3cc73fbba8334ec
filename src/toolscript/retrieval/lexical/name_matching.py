"""Matches a question with the names of tools, exact or misspelled.

A query that is a tool's name, its qualified id or its words, however they are
joined, gets similarity 1. One that is nearly a name gets its edit similarity,
but only when it cannot be read as known words: "list files" is a question even
where a tool is called ``list_tiles``. The same goes, a little weaker, for a
name inside a sentence: for what is written like an identifier, or is no word
that any tool knows.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeAlias

from toolscript.retrieval.base import Corpus, Mask, Query, Rows
from toolscript.retrieval.lexical.bm25f import LexicalIndex
from toolscript.retrieval.lexical.spelling import Spellings
from toolscript.text.words import STOP_WORDS, compact, words
from toolscript.types import SEPARATOR, Document

MIN_SIMILARITY = 0.75
"""Least edit similarity of a misspelled name."""
MAX_CHARS = 80
_SHORTEST = 4
IN_SENTENCE = 0.9
"""A name inside a sentence counts this much of one that is the whole query."""
_SHORTEST_IN_SENTENCE = 6
_IDENTIFIER = re.compile(r"[^\W_][_\-.:][^\W_]|[a-z][A-Z]")
_ID_MARK = re.compile(f"{SEPARATOR}|:")
_BETWEEN = re.compile(r"[\s,;|()\[\]{}<>\"'`\u00ab\u00bb\u2018-\u201f\u3001\uff0c\uff1b]+")
"""The characters between the names of a list, and around them."""
_SELECT = re.compile(r"(?:select\s*:\s*)+(?=\S)", re.IGNORECASE)
"""Begins a question that lists names and nothing else, as models ask Claude's tool search."""
_CLIENT_PREFIX = re.compile(r"^(?:mcp_+|functions[.:])(?=\w)")
"""The prefixes that clients put before the name of a tool."""
MAX_TOKENS = 64
"""The number of words of a longer question that may be names."""


@dataclass(frozen=True, slots=True, order=True)
class NameMatch:
    """A name that a query spells."""

    score: float
    """1 for exactly the name; the least score of the document."""
    similarity: float
    """How alike the spellings are, in [`MIN_SIMILARITY`, 1]."""

    @property
    def is_exact(self) -> bool:
        """Whether the query is the name, of a document that may have it."""
        return self.score >= 1

    def discount(self) -> "NameMatch":
        """The same name, found inside a question rather than being all of it."""
        return NameMatch(IN_SENTENCE * self.score, self.similarity)


def look_alike_id(name: str) -> str:
    """Returns the id that a tool's name looks like, in letters and digits only, or ""."""
    return compact(_CLIENT_PREFIX.sub("", name)) if _ID_MARK.search(name) else ""


_EXACT = NameMatch(1.0, 1.0)
IMPERSONATOR = 0.99
"""A name that is spelled like another server's id counts this much of that id."""


class _Names:
    """The spellings of the names of one segment's documents: each with their places."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.compact: defaultdict[str, list[int]] = defaultdict(list)
        """The spelling in letters and digits only: of the name alone, and after the server's."""
        self.exact: defaultdict[str, list[int]] = defaultdict(list)
        """As it stands: for names in symbols only, and to prefer the one meant among near twins."""
        self.qualified = set[str]()
        """Those of the names after the servers'."""
        self.posing: list[tuple[int, str]] = []
        """Those that are called ``server__tool`` or ``server:tool``, and how that is spelled."""
        for place, each in enumerate(documents):
            name, qualified = compact(each.name), compact(each.server + each.name)
            for spelling in {name, qualified} - {""}:
                self.compact[spelling].append(place)
            self.qualified.add(qualified)
            if pose := look_alike_id(each.name):
                self.posing.append((place, pose))
            for spelling in {each.name, f"{each.server}:{each.name}", each.id}:
                self.exact[spelling.strip()].append(place)
        self.spellings = Spellings(list(self.compact))


_Near: TypeAlias = Callable[[str], dict[int, NameMatch]]
"""Returns the documents, by row, whose names are spelled nearly like something."""


class NameIndex:
    """The spellings of every document's name; ``vocabulary`` knows the corpus' words."""

    def __init__(self, corpus: Corpus, vocabulary: LexicalIndex) -> None:
        self._parts = [(part.segment.derive(_Names), part.rows) for part in corpus.parts]
        self._knows = vocabulary.knows
        self.impersonating = frozenset(self._impersonating(corpus.documents))
        """The documents, by row, that are named like another's id."""

    def _impersonating(self, documents: Sequence[Document]) -> Iterator[int]:
        for names, rows in self._parts:
            for place, name in names.posing:
                row = int(rows[place])
                if row < 0 or not any(name in each.qualified for each, _ in self._parts):
                    continue
                like = [documents[each] for each in sorted(self.rows_of(name))]
                ids = [each for each in like if compact(each.server + each.name) == name]
                if ids and ids[-1].server != documents[row].server:
                    yield row

    def match(
        self, texts: Iterable[str], visible: Mask | None = None
    ) -> dict[str, dict[int, NameMatch]]:
        """Returns, for a question and each of its parts, the documents whose names it spells.

        Args:
            texts: The question and its parts.
            visible: Only these rows count, by default all.

        Returns:
            By text, and by row.
        """
        near = cache(partial(self._near, visible=visible))  # parts have the question's words
        return {text: self._match(Query(text), visible, near) for text in texts}

    def _match(self, query: Query, visible: Mask | None, near: _Near) -> dict[int, NameMatch]:
        text, spelled = query.text.strip(), query.compact
        matches = self._find_named(text, visible)
        if matches:
            return matches
        if names := parse_selection(text):
            return _best_matches(self._match(Query(name), visible, near) for name in names)
        matches = self._find_under_other_server(text, visible)
        is_name_long = _SHORTEST <= len(spelled) <= MAX_CHARS
        if not matches and is_name_long and not self._readable(query.words):
            matches = near(spelled)
        return matches or self._within(query, visible, near)

    def _find_named(self, text: str, visible: Mask | None) -> dict[int, NameMatch]:
        """Returns the tools whose name or id a text is, perhaps after a client's prefix."""
        rows = self._literally(text, visible) or self.rows_of(compact(text), visible)
        own = _CLIENT_PREFIX.match(text)
        if own and self.impersonating.issuperset(rows):
            rows = [*rows, *self.rows_of(compact(text[own.end() :]), visible)]
        return self._exactly(rows)

    def _find_under_other_server(self, text: str, visible: Mask | None) -> dict[int, NameMatch]:
        """The tools of an id that begins with up to three names of servers that are not ours."""
        parts = text.split(SEPARATOR, 3)
        for first in range(1, len(parts)):
            rest = SEPARATOR.join(parts[first:])
            if exact := self._exactly(self.rows_of(compact(rest), visible)):
                return exact if SEPARATOR in rest else _discount(exact)
        return {}

    def _within(self, query: Query, visible: Mask | None, near: _Near) -> dict[int, NameMatch]:
        """Names that single words of a sentence spell."""
        tokens = [*filter(None, _BETWEEN.split(query.text))][:MAX_TOKENS]
        matches = (self._token(token, visible, near) for token in tokens if len(tokens) > 1)
        return _best_matches(map(_discount, matches))

    def _token(self, token: str, visible: Mask | None, near: _Near) -> dict[int, NameMatch]:
        spelled = compact(token)
        if len(spelled) < _SHORTEST_IN_SENTENCE:
            return {}
        identifier, readable = _IDENTIFIER.search(token), self._readable(words(token))
        if readable and not identifier:
            return {}
        matches = self._find_named(token, visible) or self._find_under_other_server(token, visible)
        if matches or readable or len(spelled) > MAX_CHARS:
            return matches
        return near(spelled)

    def _exactly(self, rows: Iterable[int]) -> dict[int, NameMatch]:
        """The exact name of these; an impersonator's only if nothing else has it."""
        named = {row: self._match_row(row, 1.0) for row in rows}
        return named if _EXACT in named.values() else dict.fromkeys(named, _EXACT)

    def _match_row(self, row: int, similarity: float) -> NameMatch:
        factor = IMPERSONATOR if row in self.impersonating else 1.0
        return NameMatch(factor * similarity, similarity)

    def _readable(self, asked: list[str]) -> bool:
        return all(word in STOP_WORDS or self._knows(word) for word in asked)

    def _near(self, spelled: str, visible: Mask | None) -> dict[int, NameMatch]:
        near = {
            each
            for names, _ in self._parts
            for each in names.spellings.alike(spelled, MIN_SIMILARITY)
        }
        return _best_matches(
            {row: self._match_row(row, similarity) for row in self.rows_of(spelling, visible)}
            for spelling, similarity in near
        )

    def _literally(self, text: str, visible: Mask | None) -> list[int]:
        """Returns the ``visible`` rows with this spelling as it stands."""
        return self._visible_rows([names.exact.get(text, []) for names, _ in self._parts], visible)

    def rows_of(self, spelling: str, visible: Mask | None = None) -> list[int]:
        """Returns the ``visible`` rows with this spelling in letters and digits only."""
        return self._visible_rows(
            [names.compact.get(spelling, []) for names, _ in self._parts], visible
        )

    def _visible_rows(self, places: Sequence[list[int]], visible: Mask | None) -> list[int]:
        """Returns the ``visible`` rows of the places in each segment."""
        found = zip(places, self._parts, strict=True)
        rows = (row for each, (_, rows) in found for row in _present(rows[each]))
        return [row for row in rows if visible is None or visible[row]]


def parse_selection(text: str) -> list[str]:
    """Returns the names that a question of the form ``select:a,b`` lists; none for any other."""
    selected = _SELECT.match(text)
    names = text[selected.end() :].split(",")[:MAX_TOKENS] if selected else []
    return [name.strip() for name in names if name.strip()]


def _discount(matches: Mapping[int, NameMatch]) -> dict[int, NameMatch]:
    return {row: match.discount() for row, match in matches.items()}


def _best_matches(matches: Iterable[Mapping[int, NameMatch]]) -> dict[int, NameMatch]:
    """Returns the best match of each row."""
    best: dict[int, NameMatch] = {}
    for each in matches:
        for row, match in each.items():
            best[row] = max(match, best.get(row, match))
    return best


def _present(rows: Rows) -> list[int]:
    """Returns the rows without those of documents that the corpus lacks."""
    return rows[rows >= 0].tolist()
