"""Infers the capability that a question wants, and whether a shell has it.

The table is data (``capabilities.json``). It labels tools and questions
("file operations"), and it lists the abilities of a shell: if a question wants
git and no tool for it is at hand, a shell is a good answer although its
description never says git.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolscript.retrieval.base import Corpus, DocumentMemo, Query, Rows
from toolscript.retrieval.lexical.analyzer import Stemmer
from toolscript.text.words import first_sentence, words
from toolscript.types import Document

BOOST = 0.45
"""The share of the way to 1 by which a shell's score is raised."""
DEDICATED = 0.35
"""The score of a dedicated tool from which on no shell is raised."""
ANSWERED = 0.6
"""The same of any other tool: whatever its name, it answers the question."""
_NAME_WEIGHT = 3
_REMEMBERED = 64
"""The stems of so many questions are remembered."""

_Pattern = frozenset[str]


@dataclass(frozen=True, slots=True)
class Capability:
    """One row of the table, its words stemmed."""

    name: str
    short: str
    shell: bool
    intents: tuple[_Pattern, ...]
    tools: tuple[_Pattern, ...]


@dataclass(frozen=True, slots=True)
class CapabilityTable:
    """The whole table."""

    capabilities: tuple[Capability, ...]
    executor_names: tuple[_Pattern, ...]
    executor_descriptions: tuple[_Pattern, ...]


@cache
def _raw() -> Any:
    path = Path(__file__).with_name("capabilities.json")
    return json.loads(path.read_text(encoding="utf-8"))


def load_table(stem: Stemmer) -> CapabilityTable:
    """The table shipped with the package."""
    raw = _raw()

    def patterns(lists: Iterable[Iterable[str]]) -> tuple[_Pattern, ...]:
        return tuple(
            frozenset(map(stem, pattern)) if len(pattern) > 1 else frozenset(map(_whole, pattern))
            for pattern in map(list, lists)
        )

    capabilities = tuple(
        Capability(**row | {key: patterns(row[key]) for key in ("intents", "tools")})
        for row in raw["capabilities"]
    )
    executors = (patterns(raw["executors"][key]) for key in ("name", "description"))
    return CapabilityTable(capabilities, *executors)


@dataclass(frozen=True, slots=True)
class Purpose:
    """The purpose of one document."""

    capabilities: tuple[str, ...]
    """Names of rows of the table, the likeliest first."""
    executes: bool
    """Whether it runs commands."""


class CapabilityReader:
    """Reads the purposes of documents, again only if they changed. One thread at a time."""

    def __init__(self, stem: Stemmer) -> None:
        self.stem = stem
        self.table = load_table(stem)
        self._known = DocumentMemo(self.purpose)
        self._signs = {c.name: (*c.intents, *c.tools) for c in self.table.capabilities}
        self._asked = lru_cache(_REMEMBERED)(self._stems)

    def purposes(self, documents: Sequence[Document]) -> "_Purposes":
        """Returns the purposes of the documents of a segment."""
        return _Purposes(self._known.of(documents))

    def purpose(self, document: Document) -> Purpose:
        """Returns the purpose of a document."""
        if document.parent_id:
            return Purpose((), executes=False)
        title = self._stems(f"{document.server} {document.name}")
        name, text = self._stems(document.name), self._stems(document.description)
        weights = {c.name: _weight(c, title, title | text) for c in self.table.capabilities}
        likeliest = sorted((n for n in weights if weights[n]), key=lambda n: -weights[n])
        # Further down, other tools of a shell's server tell of running commands too.
        opening = self._stems(first_sentence(document.description))
        executes = any(p <= name for p in self.table.executor_names) or any(
            p <= opening for p in self.table.executor_descriptions
        )
        return Purpose(tuple(likeliest), executes)

    def intents(self, query: Query) -> list[Capability]:
        """Returns the capabilities that a question asks for. Any thread may ask."""
        asked = self._asked(query.text)
        return [c for c in self.table.capabilities if any(p <= asked for p in c.intents)]

    def speaks_of(self, query: Query, capability: str) -> bool:
        """Returns whether a question speaks of a capability. Any thread may ask."""
        asked = self._asked(query.text)
        return any(pattern <= asked for pattern in self._signs[capability])

    def _stems(self, text: str) -> _Pattern:
        return stems_of(text, self.stem)


class _Purposes:
    """The purposes of the documents of one segment, and the places of those that have one."""

    def __init__(self, purposes: Sequence[Purpose]) -> None:
        self.all = purposes
        self.members: defaultdict[str, list[int]] = defaultdict(list)
        for place, purpose in enumerate(purposes):
            for name in purpose.capabilities:
                self.members[name].append(place)
        self.executors = [place for place, purpose in enumerate(purposes) if purpose.executes]


class CapabilityIndex:
    """The purpose of each document of a corpus; a text about running commands runs none.

    Args:
        corpus: The documents.
        reader: Reads their purposes.
    """

    def __init__(self, corpus: Corpus, reader: CapabilityReader) -> None:
        self._reader = reader
        self._documents = corpus.documents
        self._parts = [(part.segment.derive(reader.purposes), part) for part in corpus.parts]
        self._executors = self._rows(lambda purposes: purposes.executors)

    def executors_for(self, query: Query, reachable: Rows) -> Rows:
        """Returns the ``reachable`` rows that run commands, if a shell can answer the question."""
        if not any(capability.shell for capability in self.intents(query)):
            return np.empty(0, np.intp)
        mask = np.zeros(len(self._documents), np.bool_)
        mask[reachable] = True
        return np.sort(self._executors[mask[self._executors]])

    def _rows(self, places: Callable[[_Purposes], list[int]]) -> Rows:
        """Returns the rows of the places that are found in each segment."""
        rows = np.concatenate([part.rows[places(purposes)] for purposes, part in self._parts])
        return rows[rows >= 0]

    def _purpose(self, row: int) -> Purpose:
        identifier = self._documents[row].id
        found = (
            purposes.all[place]
            for purposes, part in self._parts
            if (place := part.segment.places.get(identifier, -1)) >= 0 and part.rows[place] == row
        )
        return next(found)

    def label(self, row: int, query: Query) -> str:
        """Returns the document's likeliest capability that the question speaks of, in two words.

        Empty if the question speaks of none: a tool is found for many reasons
        that have nothing to do with its other abilities.
        """
        names = self._purpose(row).capabilities
        return next((name for name in names if self._reader.speaks_of(query, name)), "")

    def intents(self, query: Query) -> list[Capability]:
        """The capabilities that the question asks for."""
        return self._reader.intents(query)

    def infer_shell(
        self, query: Query, scores: NDArray[np.floating], reachable: Rows
    ) -> tuple[Capability, NDArray[np.floating]] | None:
        """Returns the capability for which only a shell answers, and scores with the shells raised.

        None if another tool scores well. ``reachable`` are the rows that the
        caller asks about and may see: other rows decide nothing.
        """
        executors = self.executors_for(query, reachable)
        if not executors.size:
            return None
        seen = np.zeros_like(scores)
        seen[reachable] = scores[reachable]
        if np.delete(seen, self._executors).max(initial=0.0) >= ANSWERED:
            return None
        lacking = (
            each
            for each in self.intents(query)
            if each.shell and not self._has_dedicated(each, seen)
        )
        capability = next(lacking, None)
        if capability is None:
            return None
        raised = scores.copy()
        raised[executors] += BOOST * (1 - raised[executors])
        return capability, raised

    def _has_dedicated(self, capability: Capability, scores: NDArray[np.floating]) -> bool:
        members = self._rows(lambda purposes: purposes.members.get(capability.name, []))
        dedicated = np.setdiff1d(members, self._executors)
        return bool(scores[dedicated].max(initial=0.0) >= DEDICATED)


def stems_of(text: str, stem: Stemmer) -> _Pattern:
    """Returns the different stems of a text, and its words as patterns of one word have them."""
    own = words(text)
    return frozenset(map(stem, own)).union(map(_whole, own))


def _whole(word: str) -> str:
    """Returns a word in the singular, marked, so that no stem is like it.

    A stem is too little of one word alone: "containing" has that of "container".
    """
    if word.endswith("ies"):
        word = f"{word[:-3]}y"
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-2] if word.endswith(("xes", "ches", "shes", "sses")) else word[:-1]
    return f"={word}"


def _weight(capability: Capability, name: _Pattern, text: _Pattern) -> int:
    return sum(_NAME_WEIGHT if p <= name else 1 for p in capability.tools if p <= text)
