"""What comes next: a probability for every tool, given those used so far.

    P = repeat · P(one of those used) + (1 − repeat) · (½ P(after the last) + ½ P(with each))

*After the last* counts what directly followed the last tool; *with each* is the
mean, over the tools of the context, of what was used in the same sequence,
whichever came first. Both are smoothed alike: of every count `discount` is taken
off, and what that leaves goes to the level below (interpolated absolute
discounting: Ney, Essen & Kneser, 1994), so that a tool that was never used with
these is guessed from what is alike. A tool whose calls fail is less likely by
the share that does.

    P below = P(server | last server) · P(tool | server, context)

The server is smoothed in the same way, over how often uses stay with a server.
Within one, four guesses count a quarter each: how often a tool is used, how near
in meaning it is to the context, how near to what followed tools like the last
one, and the neighbours it shares with the context (Adamic-Adar). Nearness is
the standard score of the cosine, so that it means the same for every model.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from toolscript.embedding.base import Vectors
from toolscript.graph.counts import Tools
from toolscript.graph.edges import LEAST_DISCOUNT, Floats, Ints, RowLists, discount
from toolscript.graph.graph_data import GraphData
from toolscript.graph.tool_graph import SKILL_BEFORE, ToolGraph, relatedness

MASS = 1.0
"""Uses that the level below counts for, beside what is taken off."""
SERVER_MASS = 4.0
SHARPNESS = 1.2
"""By how many e-folds one standard deviation of nearness makes a tool likelier."""
ALIKE = 16
"""So many tools like the last one are asked what followed them."""
FAR = 1.5
"""Standard deviations above the mean: some 7 of 100 are further."""
COMMON = 32
"""Over so many of a tool's neighbours others are reached: those with the fewest of their own."""
FEW, DIRECTIONS = 2000, 64
"""Of more tools than the first, meaning is seen in so many directions."""
_LEAST = 1e-12


@dataclass(frozen=True)
class Forecast:
    """One corpus's tools, seen by a graph: immutable but for what the graph learns.

    ``ids`` and ``servers`` are the corpus' tools in its order, ``vectors`` their
    embeddings float32 [n, dim], unit rows, zero where there is none.
    """

    graph: ToolGraph
    ids: tuple[str, ...]
    servers: tuple[str, ...]
    vectors: Vectors | None = None

    def scores(self, context: Sequence[str]) -> Floats | None:
        """How far from chance to certainty each tool is to be next: float64 [n] in [0, 1].

        ln(p · n) / ln n where that is above 0, times the graph's skill; as long as
        little use was seen, at least what the graph's shape says (see `_prior`). None
        where there is nothing to say: an empty graph, or a context of no tool
        that is there.
        """
        chances = self.chances(context)
        if chances is None:
            return None
        gains, graph = self.gains(chances), self.graph
        more = np.maximum(0.0, self._prior(context, gains) - SKILL_BEFORE * gains)
        return graph.predictive_skill * gains + graph.inexperience * more

    def connected(self, context: Sequence[str]) -> Ints:
        """The rows that a template puts beside a tool of the context, or beside one of those."""
        with self.graph.lock:
            beside = self._stated_with(self._numbers(context))
            found = self._places.of(self._learned.tools)[beside + self._stated_with(beside)]
        return np.unique(found[found >= 0])

    def _prior(self, context: Sequence[str], gains: Floats) -> Floats:
        """What is supposed before any use was seen: float64 [n] in [0, 1].

        The largest `ToolGraph.graph_relatedness` with a tool of the context. Two
        tools that a template puts right beside each other count as if they had one
        more neighbour, which only they share, and what is likely to come next is
        nearer to 1.
        """
        prior = np.zeros(len(self.ids) + 1)
        with self.graph.lock:
            edges = self._learned.edges
            row_of, numbers = self._places.of(self._learned.tools), self._numbers(context)
            for number in numbers:
                sums = edges.adamic_adar(number, COMMON).copy()
                sums[number] = 0.0
                sums[edges.stated_with(number)] += 1.0 / math.log(2)
                prior[row_of] = np.maximum(prior[row_of], relatedness(sums))
            beside = row_of[self._stated_with(numbers)]
        prior = prior[:-1]  # what the corpus lacks came last
        beside = beside[beside >= 0]
        prior[beside] += (1.0 - prior[beside]) * gains[beside]
        return prior

    def _numbers(self, context: Sequence[str]) -> list[int]:
        numbers = self._learned.tools.numbers
        return [numbers[used] for used in context if used in numbers]

    def _stated_with(self, numbers: list[int]) -> list[int]:
        found = (self._learned.edges.stated_with(number).tolist() for number in numbers)
        return list(dict.fromkeys(chain.from_iterable(found)))

    def gains(self, chances: Floats, least: float = 0.0) -> Floats:
        """ln(p · n) / ln n within ``least`` and 1: what it would gain to have foreseen each."""
        count = max(2, len(self.ids))
        return np.clip(np.log(np.maximum(chances, _LEAST) * count) / np.log(count), least, 1.0)

    def chances(self, context: Sequence[str]) -> Floats | None:
        """The probability of each tool to be used next: float64 [n], sum 1; see `scores`."""
        rows = [self._rows[used] for used in context if used in self._rows]
        if not rows or not self.graph.edge_count:
            return None
        with self.graph.lock:
            return self._chances(rows)

    def evaluate(self, context: Sequence[str], tool: str) -> None:
        """Before a use is learned: note how well it was foreseen."""
        row = self._rows.get(tool)
        chances = None if row is None else self.chances(context)
        if row is not None and chances is not None:
            self.graph.record_gain(float(self.gains(chances[row], least=-1.0)))

    @property
    def _learned(self) -> GraphData:
        return self.graph.learned

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {identifier: row for row, identifier in enumerate(self.ids)}

    @cached_property
    def _names(self) -> list[str]:
        return sorted(set(self.servers))

    @cached_property
    def _place(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self._names)}

    @cached_property
    def _server(self) -> Ints:
        """Each tool's server, by its place among the names."""
        return np.array([self._place[name] for name in self.servers], dtype=np.int64)

    @cached_property
    def _sizes(self) -> Floats:
        return np.bincount(self._server, minlength=len(self._names)) / len(self.ids)

    @cached_property
    def _places(self) -> "_RowIndex":
        return _RowIndex(self._rows)

    def _chances(self, context: list[int]) -> Floats:
        row_of, now = self._places.of(self._learned.tools), self.graph.now()
        numbers = [self._learned.tools.numbers.get(self.ids[row], -1) for row in context]
        alone = self._alone.of(self._learned.tools, now, self._by_itself)
        below = self._below(context, numbers, alone, row_of, now)
        edges = self._learned.edges
        after = discount(edges.next_once, edges.next_twice)
        along = discount(edges.once, edges.twice)
        last = [edges.rows([n], adjacent=True, now=now) for n in numbers[-1:] if n >= 0]
        fresh = 0.5 * _level(_spread(last, after, row_of, below.size), below)
        for number in numbers:
            ways = (False, True) if number >= 0 else ()
            both = [edges.rows([number], into=into, now=now) for into in ways]
            with_it = _level(_spread(both, along, row_of, below.size), below)
            fresh += 0.5 / len(numbers) * with_it
        fresh *= alone.reliable
        fresh[context] = 0.0
        return self._with_repeats(fresh, context)

    @cached_property
    def _alone(self) -> "_PriorCache":
        return _PriorCache()

    def _by_itself(self, now: float) -> "_Prior":
        row_of = self._places.of(self._learned.tools)
        servers = self._server_level(self._learned.served, self._sizes, MASS, now)
        return _Prior(self._popular(row_of, now), self._reliable(row_of, now), servers)

    def _reliable(self, row_of: Ints, now: float) -> Floats:
        """The share of each tool's calls that succeed, as if one more had."""
        tools, reliable = self._learned.tools, np.ones(len(self.ids))
        failed = np.flatnonzero(tools.failed[: len(tools)])
        rows = row_of[failed]
        worked, failed = tools.weight[failed] / now, tools.failed[failed] / now
        reliable[rows[rows >= 0]] = ((worked + 1) / (worked + failed + 1))[rows >= 0]
        return reliable

    def _with_repeats(self, fresh: Floats, context: list[int]) -> Floats:
        habits = self._learned.habits
        repeat = (habits.repeats + 0.5) / (habits.steps + 5.0)
        total = fresh.sum()
        if total <= 0:
            repeat, total = 1.0, 1.0
        chances = fresh * ((1.0 - repeat) / total)
        chances[context] += repeat / len(set(context))
        return chances / chances.sum()

    def _below(
        self, context: list[int], numbers: list[int], alone: "_Prior", row_of: Ints, now: float
    ) -> Floats:
        """What is guessed of tools that were never used with these."""
        within = self._within(context, numbers, alone.popular, row_of, now)
        within[context] = 0.0
        totals = np.bincount(self._server, weights=within, minlength=len(self._names))
        servers = self._server_chances(context[-1], alone.servers, now)
        below = within / np.maximum(totals, _LEAST)[self._server] * servers[self._server]
        return below / max(below.sum(), _LEAST)

    def _within(
        self, context: list[int], numbers: list[int], popular: Floats, row_of: Ints, now: float
    ) -> Floats:
        guesses = [popular, *self._near(context, row_of, now)]
        shared = self._shared(numbers, row_of)
        if shared is not None:
            guesses.append(shared)
        missing = 4 - len(guesses)
        total = sum(guesses) + missing * guesses[0]
        return np.asarray(total) / 4

    def _popular(self, row_of: Ints, now: float) -> Floats:
        """How often tools are used, smoothed down to each alike."""
        tools = self._learned.tools
        times = tools.times[: len(tools)]
        once, twice = int((times == 1).sum()), int((times == 2).sum())  # noqa: PLR2004 - as it says
        size = np.array([len(tools)])
        row = RowLists(np.arange(len(tools)), tools.weight[: len(tools)] / now, times, size)
        count = len(self.ids)
        spread = _spread([row], discount(once, twice), row_of, count)
        return _level(spread, np.full(count, 1.0 / count))

    def _near(self, context: list[int], row_of: Ints, now: float) -> list[Floats]:
        """By meaning: near to the context, and near to what followed tools like the last."""
        meaning = self._meaning
        if meaning is None:
            return []
        asked = np.stack([meaning[context].mean(axis=0), meaning[context[-1]]], axis=1)
        near = meaning @ asked
        found = [_sharp(near[:, 0])]
        expected = self._expected(_standard(near[:, 1]), row_of, now)
        if expected is not None:
            found.append(_sharp(meaning @ expected))
        return found

    @cached_property
    def _meaning(self) -> Vectors | None:
        """The vectors, of many tools only what tells them apart most: float32 [n, ≤ dim].

        Their `DIRECTIONS` principal components: for guesses that is enough, and a
        product with them takes a sixth of the time.
        """
        vectors = self.vectors
        if vectors is None or len(vectors) <= FEW or vectors.shape[1] <= DIRECTIONS:
            return vectors
        some = vectors[:: max(1, len(vectors) // FEW)]
        _, directions = np.linalg.eigh(some.T @ some)
        return np.ascontiguousarray(vectors @ directions[:, -DIRECTIONS:], dtype=np.float32)

    def _expected(self, alike: Vectors, row_of: Ints, now: float) -> Vectors | None:
        """The mean meaning of what followed the tools that are most like the last one."""
        edges, meaning = self._learned.edges, self._meaning
        leading = edges.leading()
        leading = leading[row_of[leading] >= 0]
        if not leading.size or meaning is None:
            return None
        nearness = alike[row_of[leading]]
        order = _largest_of_many(nearness, ALIKE)
        found = edges.rows(leading[order].tolist(), adjacent=True, now=now)
        of = np.repeat(np.arange(order.size), found.sizes)
        rows = row_of[found.others]
        weights = np.where(rows >= 0, found.weights, 0.0)
        totals = np.bincount(of, weights=weights, minlength=order.size)
        shares = np.exp(SHARPNESS * (nearness[order] - nearness[order[0]]))
        weights *= (shares / np.maximum(totals, _LEAST))[of]
        expected = weights.astype(np.float32) @ meaning[rows]
        length = float(np.linalg.norm(expected))
        return expected / np.float32(length) if length else None

    def _shared(self, numbers: list[int], row_of: Ints) -> Floats | None:
        """Adamic-Adar with the tools of the context, as a distribution."""
        edges = self._learned.edges
        found = sum(edges.adamic_adar(n, COMMON) for n in numbers if n >= 0)
        sums = np.zeros(len(self.ids) + 1)
        sums[row_of] = found  # those that are not there come last, and count for none
        sums = sums[:-1]
        total = sums.sum()
        return sums / total if total > 0 else None

    def _server_chances(self, last: int, alone: Floats, now: float) -> Floats:
        """Which server the next tool is of."""
        if len(self._names) == 1:
            return np.ones(1)
        habits = self._learned.habits
        stays = (habits.same_server + 0.5) / (habits.steps - habits.repeats + 1.0)
        low = alone * (1.0 - min(1.0, stays))
        low[self._server[last]] += min(1.0, stays)
        steps = self._learned.servers.get(self.servers[last], {})
        return self._server_level(steps, low, SERVER_MASS, now)

    def _server_level(
        self, weights: dict[str, float], below: Floats, mass: float, now: float
    ) -> Floats:
        places = self._places.of_servers(weights, self._place)
        there = places >= 0
        values = np.fromiter(weights.values(), np.float64, len(weights))[there] / now
        spread = np.zeros(below.size)
        spread[places[there]] = np.maximum(values - LEAST_DISCOUNT, 0.0)
        total = float(values.sum())
        return (spread + (total - spread.sum() + mass) * below) / (total + mass)


@dataclass(frozen=True, slots=True)
class _Prior:
    """What holds whatever the context: of each tool, and how often each server's are used."""

    popular: Floats
    reliable: Floats
    servers: Floats


class _PriorCache:
    """Remembers that until a tool is used, or weights have decayed by a thousandth: some hours."""

    def __init__(self) -> None:
        self._state: tuple[object, ...] = ()
        self._made: _Prior | None = None

    def of(self, tools: Tools, now: float, make: Callable[[float], _Prior]) -> _Prior:
        uses = int(tools.times.sum()), int(tools.failures.sum())
        state = (tools, len(tools), *uses, round(1_000 * math.log2(now)))
        if self._made is None or state != self._state:
            self._state, self._made = state, make(now)
        return self._made


class _RowIndex:
    """The row of each of a graph's tools by its number; −1 for one that the corpus lacks."""

    def __init__(self, rows: dict[str, int]) -> None:
        self._rows = rows
        self._tools: Tools | None = None
        self._places = np.zeros(0, dtype=np.int64)
        self._servers: tuple[object, Ints] = (None, self._places)

    def of_servers(self, weights: dict[str, float], place: dict[str, int]) -> Ints:
        """The places of servers by name; those of the largest dictionary are remembered."""
        known, places = self._servers
        if known is not weights or places.size != len(weights):
            places = np.array([place.get(name, -1) for name in weights], dtype=np.int64)
            if places.size >= self._servers[1].size or known is weights:
                self._servers = (weights, places)
        return places

    def of(self, tools: Tools) -> Ints:
        """Looked up again only for tools that are new."""
        if tools is not self._tools:
            self._tools, self._places = tools, np.zeros(0, dtype=np.int64)
        new = tools.ids[self._places.size :]
        if new:
            places = np.array([self._rows.get(each, -1) for each in new], dtype=np.int64)
            self._places = np.concatenate([self._places, places])
        return self._places


def _spread(
    found: list[RowLists], discounted: float, row_of: Ints, size: int
) -> tuple[Floats, float]:
    """Discounted weights over the corpus' rows, and what they weighed before, all together."""
    spread, total = np.zeros(size), 0.0
    for row in found:
        places = row_of[row.others]
        weights = np.where((places >= 0) & (row.times > 0), row.weights, 0.0)
        total += float(weights.sum())
        left = np.maximum(1.0 - discounted / np.maximum(row.times, 1), 0.0)
        spread += np.bincount(places + 1, weights=weights * left, minlength=size + 1)[1:]
    return spread, total


def _level(counted: tuple[Floats, float], below: Floats) -> Floats:
    """Counts, with what was taken off them given to the level below."""
    spread, total = counted
    if total <= 0:
        return below
    return (spread + (total - spread.sum() + MASS) * below) / (total + MASS)


def _largest(values: Vectors, count: int) -> Ints:
    """The places of the largest values, largest first."""
    some = (
        np.argpartition(-values, count)[:count] if values.size > count else np.arange(values.size)
    )
    return some[np.argsort(-values[some], kind="stable")]


def _largest_of_many(scores: Vectors, count: int) -> Ints:
    """The same of standard scores; only those above `FAR` are sorted, where that will do."""
    far = np.flatnonzero(scores > FAR)
    return far[_largest(scores[far], count)] if far.size >= count else _largest(scores, count)


def _standard(cosines: Vectors) -> Vectors:
    shifted = cosines - cosines.mean()
    return shifted / max(float(np.sqrt(shifted @ shifted / shifted.size)), 1e-6)


def _sharp(cosines: Vectors) -> Floats:
    """Nearness as a distribution: each standard deviation is worth `SHARPNESS` e-folds."""
    exponents = np.float32(SHARPNESS) * _standard(cosines)
    found = np.exp(exponents - exponents.max())
    return (found / found.sum()).astype(np.float64)
