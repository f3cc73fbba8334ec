"""Finds very many tools by name in little memory, with sorted hashes of their spellings.

A spelling leads to tools by its hash, so that only the spellings themselves, which near names
are looked up in, are kept as text.
"""

from array import array
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from toolscript.postgres.packed_texts import PackedTexts
from toolscript.retrieval.base import Mask
from toolscript.retrieval.lexical.name_matching import MIN_SIMILARITY, NameMatcher, imitated_id
from toolscript.retrieval.lexical.spelling import Spellings
from toolscript.text.words import compact

_MANY = 500
"""To unpack more spellings than these takes longer than to look at all signatures."""
Hashes = NDArray[np.int64]
Tool = tuple[int, int, str, str, str]
"""A tool's number and its server's, the server's name, its id and its name."""


class _Filling:
    """Hashes of spellings, and a tool's number for each."""

    def __init__(self) -> None:
        self.keys, self.numbers = array("q"), array("i")

    def add(self, spelling: str, number: int) -> None:
        self.keys.append(hash(spelling))
        self.numbers.append(number)


def _fillings() -> tuple[_Filling, _Filling, _Filling]:
    return _Filling(), _Filling(), _Filling()


class _Hashed:
    """Tools by the hash of a spelling. Tools can be added, and stay."""

    def __init__(self) -> None:
        self._keys: Hashes = np.empty(0, np.int64)
        self._numbers = np.empty(0, np.int32)
        self._later: dict[int, list[int]] = {}

    def fill(self, filling: _Filling) -> None:
        keys = np.array(filling.keys, np.int64)
        order = np.argsort(keys, kind="stable")
        self._keys, self._numbers = keys[order], np.array(filling.numbers, np.int32)[order]

    def add(self, spelling: str, number: int) -> None:
        self._later.setdefault(hash(spelling), []).append(number)

    def __getitem__(self, spelling: str) -> list[int]:
        key = hash(spelling)
        first, last = (int(np.searchsorted(self._keys, key, side)) for side in ("left", "right"))
        return [*self._numbers[first:last].tolist(), *self._later.get(key, ())]


class NameTable(NameMatcher):
    """The spellings of every tool's name; rows are the tools' numbers.

    One thread adds; any number may ask, with a mask of the tools that count.
    """

    def __init__(self, knows: Callable[[str], bool]) -> None:
        self._knows = knows
        self.impersonating = frozenset()
        self._ids, self._exact, self._compact = _Hashed(), _Hashed(), _Hashed()
        self._spellings = [Spellings([])]
        self._filling = _fillings()
        self._first = PackedTexts()
        self._own: set[str] = set()
        self._later: list[str] = []
        self._posing: dict[int, tuple[str, str]] = {}
        """By number, the compact name and the server of tools whose name looks like an id."""

    def take(self, tools: Iterable[Tool]) -> None:
        """Takes some of the first tools; they are found after `settle`."""
        for tool in tools:
            compacts, literals = _spellings(tool)
            self._filling[0].add(tool[3], tool[0])
            for spelling in literals:
                self._filling[1].add(spelling, tool[0])
            for spelling in compacts:
                self._filling[2].add(spelling, tool[0])
            own, whole = compact(tool[4]), compact(tool[2] + tool[4])
            if own and own not in self._own:
                self._own.add(own)
                self._first.append(own)
            if whole:
                self._first.append(whole)
            self._note_posing(tool)

    def settle(self) -> None:
        """Ends the first tools."""
        for filling, table in zip(
            self._filling, (self._ids, self._exact, self._compact), strict=True
        ):
            table.fill(filling)
        self._spellings = [Spellings(self._first, _MANY)]
        self._spellings[0].prepare()
        self._filling, self._first, self._own = _fillings(), PackedTexts(), set()

    def add(self, tool: Tool) -> None:
        """Takes one more tool."""
        compacts, literals = _spellings(tool)
        self._ids.add(tool[3], tool[0])
        for spelling in literals:
            self._exact.add(spelling, tool[0])
        for spelling in compacts:
            if not self._compact[spelling]:
                self._later = [*self._later, spelling]
            self._compact.add(spelling, tool[0])
        self._note_posing(tool)

    def _note_posing(self, tool: Tool) -> None:
        if pose := imitated_id(tool[4]):
            self._posing[tool[0]] = pose, tool[2]

    def find_impersonating(self, server_of: Callable[[int], str], alive: Mask) -> None:
        """Finds the tools that are named like another server's tool's id."""
        self.impersonating = frozenset(
            number
            for number, (name, server) in self._posing.items()
            if any(
                server_of(other) != server and name.startswith(compact(server_of(other)))
                for other in self.spelled(name, alive)
                if other not in self._posing
            )
        )

    def knows(self, word: str) -> bool:
        """See `NameMatcher.knows`."""
        return self._knows(word)

    def by_id(self, identifier: str, alive: Mask) -> list[int]:
        """Returns the number of the tool with this id; nothing if there is none."""
        return _seen(self._ids[identifier], alive)

    def literally(self, text: str, visible: Mask | None) -> list[int]:
        """See `NameMatcher.literally`."""
        return _seen(self._exact[text], visible)

    def spelled(self, spelling: str, visible: Mask | None = None) -> list[int]:
        """See `NameMatcher.spelled`."""
        return _seen(self._compact[spelling], visible)

    def alike(self, spelling: str) -> Iterable[tuple[str, float]]:
        """See `NameMatcher.alike`."""
        later, first = self._later, self._spellings[0]
        if later and (len(self._spellings) == 1 or self._spellings[1].words is not later):
            self._spellings = [first, Spellings(later)]
        return {each for known in self._spellings for each in known.alike(spelling, MIN_SIMILARITY)}


def _spellings(tool: Tool) -> tuple[set[str], set[str]]:
    """Returns a tool's spellings in letters and digits only, and those as they stand."""
    _, _, server, identifier, name = tool
    literals = {each.strip() for each in (name, f"{server}:{name}", identifier)}
    return {compact(name), compact(server + name)} - {""}, literals


def _seen(numbers: list[int], visible: Mask | None) -> list[int]:
    if visible is None:
        return numbers
    return [number for number in numbers if number < visible.size and visible[number]]
