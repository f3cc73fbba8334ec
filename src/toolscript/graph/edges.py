"""The edges of a graph as columns, found through a dictionary for each tool.

Weights decay exponentially. Instead of lowering all of them as time goes by,
what is added later counts more: a use at time t adds 2^((t − `EPOCH`) / half-life),
and a weight is divided by that factor of the present when it is read. So an
update touches one number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolscript.graph.counts import EdgeCounts, doubled

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

EPOCH = 1_767_225_600.0
"""Seconds; when a use counts exactly 1. Any fixed moment would do: this is the start of 2026."""
_DAY_S = 86_400.0
_FIRST = 64
LEAST_DISCOUNT = 0.5
_REMEMBERED = 20_000
_SUMS = 16
"""So many tools' sums are remembered: those of a context or two."""
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class RowLists:
    """Some tools' edges, in one direction: arrays of one entry per edge, the first tool's first."""

    others: Ints
    """The tools at the other ends, as numbers of the graph."""
    weights: Floats
    """Decayed."""
    times: Ints
    """How often seen, however long ago."""
    sizes: Ints
    """How many of the edges are each tool's: one entry for each tool."""


class Decay:
    """What a use counts, by when it was."""

    def __init__(self, half_life_days: float) -> None:
        self._half_life_s = half_life_days * _DAY_S

    def factor(self, when_s: float) -> float:
        """What a use at this moment adds, in the unit in which weights are kept."""
        return float(2.0 ** ((when_s - EPOCH) / self._half_life_s))


class Edges:
    """Directed edges between tools by number. Not thread-safe: `ToolGraph` guards it.

    ``next`` are uses directly one after the other, ``later`` uses somewhere
    after in the same sequence, those included. ``stated`` are templates.
    """

    def __init__(self) -> None:
        self.out: list[dict[int, int]] = []
        self.into: list[dict[int, int]] = []
        """By tool: the tool at the other end → the edge's number."""
        self.degree = np.zeros(_FIRST, dtype=np.int64)
        """By tool: how many edges it has, both directions together."""
        self.size = 0
        self.source = np.zeros(_FIRST, dtype=np.int64)
        self.target = np.zeros(_FIRST, dtype=np.int64)
        self.next = np.zeros(_FIRST)
        self.later = np.zeros(_FIRST)
        self.next_times = np.zeros(_FIRST, dtype=np.int64)
        self.later_times = np.zeros(_FIRST, dtype=np.int64)
        self.stated = np.zeros(_FIRST)
        self.kinds = np.zeros(_FIRST, dtype=np.int64)
        self._leading: tuple[int, Ints] = (0, np.zeros(0, dtype=np.int64))
        self._around: dict[int, tuple[int, Ints]] = {}
        self._rows: dict[tuple[int, bool], tuple[Ints, Ints]] = {}
        self._sums: tuple[tuple[int, int], dict[tuple[int, int], Floats]] = ((0, 0), {})
        self.once = self.twice = self.next_once = self.next_twice = 0
        """How many edges were seen once and twice: what `discount` is made of."""

    def add_tools(self, count: int) -> None:
        """Make room for tools up to this many."""
        while len(self.out) < count:
            self.out.append({})
            self.into.append({})
        while self.degree.size < count:
            self.degree = doubled(self.degree)

    def at(self, source: int, target: int) -> int:
        """The edge's number; it is made where there is none."""
        edge = self.out[source].get(target)
        if edge is None:
            edge = self.size
            if edge == self.source.size:
                self._grow()
            self.size += 1
            self.source[edge], self.target[edge] = source, target
            self.out[source][target] = self.into[target][source] = edge
            self.degree[source] += 1
            self.degree[target] += 1
        return edge

    def see(self, source: int, target: int, amount: float, *, adjacent: bool) -> int:
        """Count one use of ``target`` after ``source``; the edge's number."""
        edge = self.at(source, target)
        self.later[edge] += amount
        self.later_times[edge] += 1
        seen = self.later_times[edge]
        self.once += int(seen == 1) - int(seen == 2)  # noqa: PLR2004 - from once to twice
        self.twice += int(seen == 2) - int(seen == 3)  # noqa: PLR2004 - from twice to more
        if adjacent:
            self.next[edge] += amount
            self.next_times[edge] += 1
            seen = self.next_times[edge]
            self.next_once += int(seen == 1) - int(seen == 2)  # noqa: PLR2004 - see above
            self.next_twice += int(seen == 2) - int(seen == 3)  # noqa: PLR2004 - see above
        return edge

    def count_again(self) -> None:
        """The number of edges seen once and twice, from the columns."""
        later, following = self.later_times[: self.size], self.next_times[: self.size]
        self.once, self.twice = int((later == 1).sum()), int((later == 2).sum())  # noqa: PLR2004
        self.next_once = int((following == 1).sum())
        self.next_twice = int((following == 2).sum())  # noqa: PLR2004 - as it says

    def rows(
        self, tools: Sequence[int], *, into: bool = False, adjacent: bool = False, now: float
    ) -> RowLists:
        """Some tools' edges; ``now`` is `Decay.factor` of the present."""
        found = [self.arrays(tool, into=into) for tool in tools] or [(_NONE, _NONE)]
        others, numbers = found[0]
        if len(found) > 1:
            others, numbers = (np.concatenate(each) for each in zip(*found, strict=True))
        weights = (self.next if adjacent else self.later)[numbers] / now
        times = (self.next_times if adjacent else self.later_times)[numbers]
        stated = self.stated[numbers]
        sizes = np.array([others.size for others, _ in found], dtype=np.int64)
        return RowLists(others, weights + stated, times + stated.astype(np.int64), sizes)

    def arrays(self, tool: int, *, into: bool = False) -> tuple[Ints, Ints]:
        """A tool's edges as arrays, made again only when it has more: others, and numbers."""
        index = (self.into if into else self.out)[tool]
        kept = self._rows.get((tool, into))
        if kept is None or kept[0].size != len(index):
            if len(self._rows) >= 2 * _REMEMBERED:
                self._rows.clear()
            others = np.fromiter(index.keys(), np.int64, len(index))
            kept = others, np.fromiter(index.values(), np.int64, len(index))
            self._rows[tool, into] = kept
        return kept

    def leading(self) -> Ints:
        """The tools that an edge leads away from."""
        size, found = self._leading
        if size != self.size:
            counts = np.bincount(self.source[: self.size], minlength=len(self.out))
            found = np.flatnonzero(counts)
            self._leading = (self.size, found)
        return found

    def adamic_adar(self, tool: int, most: int) -> Floats:
        """A tool's sums of Adamic-Adar, by the other's number; its own is not meant.

        Over at most so many neighbours: those with the fewest of their own, since
        they say most. The last ones are remembered: not to be changed.
        """
        state = (self.size, len(self.out))
        if self._sums[0] != state or len(self._sums[1]) >= _SUMS:
            self._sums = (state, {})
        known = self._sums[1]
        found = known.get((tool, most))
        if found is None:
            found = known[tool, most] = self._adamic_adar(tool, most)
        return found

    def _adamic_adar(self, tool: int, most: int) -> Floats:
        common = self._neighbours(tool)
        if common.size > most:
            common = common[np.lexsort((common, self.degree[common]))[:most]]
        around = [each for each in map(self._neighbours, common.tolist()) if each.size > 1]
        if not around:
            return np.zeros(len(self.out))
        sizes = np.array([each.size for each in around])
        worth: Floats = np.repeat(1.0 / np.log(sizes), sizes)
        sums = np.bincount(np.concatenate(around), weights=worth, minlength=len(self.out))
        return sums.astype(np.float64, copy=False)

    def stated_with(self, tool: int) -> Ints:
        """The tools that a template puts right before or after this one."""
        ways = (self.arrays(tool, into=into) for into in (False, True))
        return np.concatenate([others[self.stated[edges] > 0] for others, edges in ways])

    def _neighbours(self, tool: int) -> Ints:
        out, into = self.out[tool], self.into[tool]
        size = len(out) + len(into)
        kept = self._around.get(tool)
        if kept is None or kept[0] != size:
            if len(self._around) >= _REMEMBERED:
                self._around.clear()
            both = out.keys() | into.keys()
            kept = self._around[tool] = (size, np.fromiter(both, np.int64, len(both)))
        return kept[1]

    def keep(self, numbers: Ints) -> None:
        """Drop all edges but these, and number them anew."""
        for name in COLUMNS:
            setattr(self, name, getattr(self, name)[numbers].copy())
        self.size = numbers.size
        tools = len(self.out)
        self.out, self.into = [], []
        self._around, self._rows, self._leading = {}, {}, (0, np.zeros(0, dtype=np.int64))
        self._sums = ((0, 0), {})
        self.degree[:] = 0
        self.add_tools(tools)
        self.link()
        self.count_again()

    def seen(self, edge: int) -> EdgeCounts:
        """What is known of one edge."""
        return EdgeCounts(
            next=float(self.next[edge]),
            later=float(self.later[edge]),
            next_times=int(self.next_times[edge]),
            later_times=int(self.later_times[edge]),
            stated=float(self.stated[edge]),
            kinds=int(self.kinds[edge]),
        )

    def fill(
        self, tools: int, sources: Ints, targets: Ints, columns: Mapping[str, NDArray[Any]]
    ) -> None:
        """Begin with these edges: see `ToolGraph.fill`."""
        self.size = sources.size
        for name in COLUMNS:
            given = {"source": sources, "target": targets}.get(name, columns.get(name))
            column = np.zeros(max(_FIRST, 2 * self.size), dtype=getattr(self, name).dtype)
            column[: self.size] = given
            setattr(self, name, column)
        self.add_tools(tools)
        self.link()
        self.count_again()

    def link(self) -> None:
        """Make the dictionaries and degrees from the columns."""
        size = self.size
        ends = np.concatenate([self.source[:size], self.target[:size]])
        self.degree += np.bincount(ends, minlength=self.degree.size)
        sources, targets = self.source[:size].tolist(), self.target[:size].tolist()
        out, into = self.out, self.into
        for edge, (source, target) in enumerate(zip(sources, targets, strict=True)):
            out[source][target] = into[target][source] = edge

    def _grow(self) -> None:
        for name in COLUMNS:
            setattr(self, name, doubled(getattr(self, name)))


COLUMNS = (
    "source",
    "target",
    "next",
    "later",
    "next_times",
    "later_times",
    "stated",
    "kinds",
)


def discount(once: int, twice: int) -> float:
    """What is taken off every count and given to what was not seen: from 0.5 to 1.

    n₁ / (n₁ + 2 n₂), the estimate of Ney, Essen & Kneser ("On structuring
    probabilistic dependences in stochastic language modelling", 1994). Where
    nearly everything was seen once, as in sequences that mean nothing, it is
    nearly 1, and counts say next to nothing. It does not fall below 0.5, since
    uses are no independent draws: the same job is done again and again.
    """
    return max(LEAST_DISCOUNT, (once + 0.5) / (once + 2 * twice + 1))
