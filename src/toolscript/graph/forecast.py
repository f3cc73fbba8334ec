"""Forecasts the next tool: a probability for every tool, given those used so far.

    P = repeat · P(one of those used) + (1 − repeat) · (½ P(after the last) + ½ P(with each))

*After the last* counts the tools that directly followed the last one; *with each* is the
mean, over the tools of the context, of the tools used in the same sequence, before
it or after it. Both are smoothed by interpolated absolute discounting (Ney, Essen &
Kneser, 1994; Chen & Goodman, "An empirical study of smoothing techniques for
language modeling", 1998): `discount` is taken off every count, and the mass that is
left goes to the back-off distribution, so that a tool that was never used with
these is guessed from similar ones. A tool whose calls fail is less likely by the
share that does.

    P back-off = P(server | last server) · P(tool | server, context)

The server is smoothed in the same way; its prior is how often uses stay with a
server. Within one, four guesses count a quarter each: how often a tool is used, how
near in meaning it is to the context, how near to the followers of tools similar to the
last one, and the neighbours it shares with the context (Adamic-Adar). Nearness is
the standard score of the cosine, so that it means the same for every model.
"""

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors
from toolscript.graph.counts import MIN_DISCOUNT, EdgeCounts, discount
from toolscript.graph.graph_data import GraphData, ToolNode, server_of
from toolscript.graph.tool_graph import ToolGraph, relatedness

BACKOFF_MASS = 1.0
"""Uses that the back-off distribution counts for, beside the discounted mass."""
SERVER_BACKOFF_MASS = 4.0
SHARPNESS = 1.2
"""The number of e-folds by which one standard deviation of nearness makes a tool likelier."""
SIMILAR_TOOLS = 16
"""The number of tools like the last one whose followers count."""
MAX_COMMON = 32
"""The number of a tool's neighbours for Adamic-Adar: those with the fewest neighbours."""
REDUCED_ABOVE, REDUCED_DIMS = 2000, 64
"""Above that number of tools vectors are reduced to so many dimensions."""
_TINY = 1e-12

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]


_Counts: TypeAlias = tuple[Ints, Floats, Floats]
"""Rows of the corpus, the weights counted for them, and how often they were seen."""


class _NodeArrays:
    """A tool's edges to tools of the corpus as arrays, made when they are first needed."""

    def __init__(self, node: ToolNode, rows: Mapping[str, int]) -> None:
        self.node, self.version = node, node.version
        self._rows = rows

    @cached_property
    def out(self) -> tuple[Floats, ...]:
        """Edges from the tool: arrays of row, next, later, and so on, see `EdgeCounts`."""
        return self._columns(self.node.out)

    @cached_property
    def into(self) -> tuple[Floats, ...]:
        """Edges to the tool: the same."""
        return self._columns(self.node.into)

    @cached_property
    def degree(self) -> int:
        """The number of its neighbours, those that the corpus lacks included."""
        return len(self.node.neighbors)

    @cached_property
    def neighbors(self) -> Ints:
        """The rows of its neighbours."""
        return _find_rows(self._rows, self.node.neighbors)

    @cached_property
    def templated(self) -> tuple[str, ...]:
        """The tools that a template puts right before or after it."""
        edges = (*self.node.out.items(), *self.node.into.items())
        return tuple(other for other, counts in edges if counts.stated > 0)

    def _columns(self, edges: Mapping[str, EdgeCounts]) -> tuple[Floats, ...]:
        known = [
            (self._rows[other], e.next, e.later, e.next_times, e.later_times, e.stated)
            for other, e in edges.items()
            if other in self._rows
        ]
        return tuple(np.array(known, dtype=np.float64).reshape(-1, 6).T)


class Forecast:
    """Forecasts over one corpus' tools, from a graph that goes on learning.

    ``ids`` and ``servers`` are the corpus' tools in its order, ``vectors`` their
    embeddings float32 [n, dim], unit rows, zero if there is none. ``total`` is the number of
    tools if these are only some; None if they are all.
    """

    def __init__(
        self,
        graph: ToolGraph,
        ids: Sequence[str],
        servers: Sequence[str],
        vectors: Vectors | None = None,
        total: int | None = None,
    ) -> None:
        self.graph = graph
        self.ids = tuple(ids)
        self.servers = tuple(servers)
        self.vectors = vectors
        self._total = total
        self._rows = {identifier: row for row, identifier in enumerate(self.ids)}
        self._places = {name: place for place, name in enumerate(sorted(set(self.servers)))}
        self._server = np.array([self._places[name] for name in self.servers], dtype=np.int64)
        self._nodes: dict[str, _NodeArrays] = {}
        self._indexed: tuple[GraphData, int, Ints, Ints] | None = None

    def scores(self, context: Sequence[str]) -> Floats | None:
        """Returns how far from chance to certainty each tool is to be next: float64 [n] in [0, 1].

        ln(p · n) / ln n if that is above 0, times the graph's predictive skill; as
        long as little use was seen, also the prior of the graph's shape (see
        `_from_structure`). None if there is nothing to say: an empty graph, a
        context without a tool of the corpus, or no `ToolGraph.trust`.
        """
        with self.graph.lock:
            if not self.graph.trust(templated=bool(self._follow_templates(context))):
                return None
            shared = self._sum_neighbors(context)
            chances = self._chances(context, shared)
            if chances is None:
                return None
            gains = self.gains(chances)
            structure = self._from_structure(shared, gains)
        return self.graph.predictive_skill * gains + self.graph.inexperience * structure

    def chances(self, context: Sequence[str]) -> Floats | None:
        """Returns each tool's probability to be used next: float64 [n], sum 1; see `scores`."""
        with self.graph.lock:
            return self._chances(context, self._sum_neighbors(context))

    def gains(self, chances: Floats, least: float = 0.0) -> Floats:
        """Returns ln(p · n) / ln n within ``least`` and 1: the gain of forecasting each tool."""
        count = max(2, self._total or len(self.ids))
        return np.clip(np.log(np.maximum(chances, _TINY) * count) / np.log(count), least, 1.0)

    def evaluate(self, context: Sequence[str], tool: str) -> float:
        """Record how well a use is forecast, before it is learned; returns its gain."""
        row = self._rows.get(tool)
        chances = None if row is None else self.chances(context)
        if row is None or chances is None:
            return 0.0
        gain = float(self.gains(chances[row], least=-1.0))
        self.graph.record_gain(gain)
        return gain

    def connected(self, context: Sequence[str]) -> Ints:
        """Returns the rows that a template puts beside a tool of the context, or beside those."""
        with self.graph.lock:
            beside = self._follow_templates(context)
            return np.unique(self._known_rows((*beside, *self._follow_templates(beside))))

    def _from_structure(self, shared: Mapping[str, Floats], gains: Floats) -> Floats:
        """Returns the prior before any use was seen: float64 [n] in [0, 1].

        The largest `ToolGraph.graph_relatedness` with a tool of the context. Two
        tools that a template puts right beside each other count as if they had one
        more neighbour, which only they share, and tools that are likely to come next are
        nearer to 1.
        """
        prior = np.zeros(len(self.ids))
        for tool, sums in shared.items():
            total = sums.copy()
            total[self._known_rows([tool])] = 0.0
            total[self._known_rows(self._arrays(tool).templated)] += 1.0 / math.log(2)
            prior = np.maximum(prior, relatedness(total))
        beside = self._known_rows(self._follow_templates(shared))
        prior[beside] += (1.0 - prior[beside]) * gains[beside]
        return prior

    def _follow_templates(self, tools: Iterable[str]) -> dict[str, None]:
        return dict.fromkeys(other for tool in tools for other in self._arrays(tool).templated)

    def _known_rows(self, tools: Iterable[str]) -> Ints:
        return _find_rows(self._rows, tools)

    def _chances(self, context: Sequence[str], shared: Mapping[str, Floats]) -> Floats | None:
        tools = [used for used in context if used in self._rows]
        data, now = self.graph.data, self.graph.now()
        if not tools or not data.edge_count:
            return None
        backoff = self._backoff(tools, shared, now)
        after, along = discount(data.next_seen), discount(data.later_seen)
        last = _counts(self._arrays(tools[-1]).out, now, adjacent=True)
        chances = 0.5 * _interpolate(*_discount_counts([last], after, backoff.size), backoff)
        for arrays in map(self._arrays, tools):
            both = [_counts(arrays.out, now), _counts(arrays.into, now)]
            with_it = _interpolate(*_discount_counts(both, along, backoff.size), backoff)
            chances += 0.5 / len(tools) * with_it
        chances *= self._reliability(now)
        return self._with_repeats(chances, self._known_rows(tools))

    def _with_repeats(self, chances: Floats, context: Ints) -> Floats:
        totals = self.graph.data.totals
        repeat = (totals.repeats + 0.5) / (totals.steps + 5.0)
        chances[context] = 0.0
        total = chances.sum()
        if total <= 0:
            repeat, total = 1.0, 1.0
        chances *= (1.0 - repeat) / total
        used = np.unique(context)
        chances[used] += repeat / used.size
        return chances / chances.sum()

    def _backoff(self, tools: list[str], shared: Mapping[str, Floats], now: float) -> Floats:
        """Returns the probabilities of tools that were never used with these: float64 [n]."""
        within = self._tool_given_server(tools, shared, now)
        within[self._known_rows(tools)] = 0.0
        totals = np.bincount(self._server, weights=within, minlength=len(self._places))
        servers = self._server_chances(tools[-1], now)
        backoff = within / np.maximum(totals, _TINY)[self._server] * servers[self._server]
        return backoff / max(backoff.sum(), _TINY)

    def _tool_given_server(
        self, tools: list[str], shared: Mapping[str, Floats], now: float
    ) -> Floats:
        """Returns the mean of four guesses; popularity stands in for those that say nothing."""
        guesses = self._by_meaning(tools, now)
        common = sum((shared[tool] for tool in tools if tool in shared), np.zeros(len(self.ids)))
        if common.any():
            guesses.append(common / common.sum())
        return (sum(guesses) + (4 - len(guesses)) * self._popularity(now)) / 4

    def _by_meaning(self, tools: list[str], now: float) -> list[Floats]:
        """Returns two guesses: near to the context, and near to the followers of similar tools."""
        meaning = self._meaning
        if meaning is None:
            return []
        context = self._known_rows(tools)
        queries = np.stack([meaning[context].mean(axis=0), meaning[context[-1]]], axis=1)
        cosines = meaning @ queries
        guesses = [_sharpen(cosines[:, 0])]
        expected = self._expect_meaning(_standard_scores(cosines[:, 1]), meaning, now)
        if expected is not None:
            guesses.append(_sharpen(meaning @ expected))
        return guesses

    @cached_property
    def _meaning(self) -> Vectors | None:
        """The vectors, or of many tools their principal components: float32 [n, ≤ dim].

        For guesses that is enough, and a product with them takes a sixth of the time.
        """
        vectors = self.vectors
        if vectors is None or len(vectors) <= REDUCED_ABOVE or vectors.shape[1] <= REDUCED_DIMS:
            return vectors
        sample = vectors[:: max(1, len(vectors) // REDUCED_ABOVE)]
        _, directions = np.linalg.eigh(sample.T @ sample)
        return np.ascontiguousarray(vectors @ directions[:, -REDUCED_DIMS:], dtype=np.float32)

    def _expect_meaning(self, nearness: Vectors, meaning: Vectors, now: float) -> Vectors | None:
        """Returns the mean vector of the followers of the tools most like the last one: [dim].

        ``nearness`` is each tool's similarity to the last one, as a standard score.
        """
        nodes = self.graph.data.nodes
        order: list[int] = np.argsort(-nearness).tolist()
        leading = (row for row in order if (node := nodes.get(self.ids[row])) and node.out)
        similar = list(islice(leading, SIMILAR_TOOLS))
        expected = np.zeros(meaning.shape[1])
        for row in similar:
            rows, weights, _ = _counts(self._arrays(self.ids[row]).out, now, adjacent=True)
            share = math.exp(SHARPNESS * float(nearness[row] - nearness[similar[0]]))
            expected += share / max(float(weights.sum()), _TINY) * (weights @ meaning[rows])
        length = float(np.linalg.norm(expected))
        return (expected / length).astype(np.float32) if length else None

    def _sum_neighbors(self, context: Sequence[str]) -> dict[str, Floats]:
        """Returns Adamic-Adar's sums with each tool of the context that the graph knows: [n].

        Over at most `MAX_COMMON` neighbours: those with the fewest neighbours, since they
        say most.
        """
        nodes, shared = self.graph.data.nodes, dict[str, Floats]()
        for tool in context:
            if tool in nodes and tool not in shared:
                rarest = heapq.nsmallest(
                    MAX_COMMON,
                    nodes[tool].neighbors,
                    key=lambda other: (nodes[other].degree, nodes[other].number),
                )
                shared[tool] = np.zeros(len(self.ids))
                for arrays in map(self._arrays, rarest):
                    if arrays.degree > 1:
                        shared[tool][arrays.neighbors] += 1.0 / math.log(arrays.degree)
        return shared

    def _server_chances(self, last: str, now: float) -> Floats:
        """Returns the probability of each server to have the next tool: float64 [servers]."""
        totals, server = self.graph.data.totals, self.servers[self._rows[last]]
        stays = min(1.0, (totals.same_server + 0.5) / (totals.steps - totals.repeats + 1.0))
        backoff = self._server_popularity(now) * (1.0 - stays)
        backoff[self._places[server]] += stays
        weights = np.zeros(backoff.size)
        for name, weight in self.graph.data.server_steps[server].items():
            if name in self._places:
                weights[self._places[name]] = weight / now
        return _interpolate_servers(weights, backoff, SERVER_BACKOFF_MASS)

    def _popularity(self, now: float) -> Floats:
        """Returns how likely each tool is in any context: float64 [n]."""
        rows, _, weights, times, _ = self._uses(now)
        size, known = len(self.ids), rows >= 0
        counts = (rows[known], weights[known], times[known])
        discounted = discount({n: int((times == n).sum()) for n in (1, 2)})
        uniform = np.full(size, 1.0 / size)
        return _interpolate(*_discount_counts([counts], discounted, size), uniform)

    def _reliability(self, now: float) -> Floats:
        """Returns the share of each tool's calls that succeed, as if one more had: float64 [n]."""
        rows, _, worked, _, failed = self._uses(now)
        reliability = np.ones(len(self.ids) + 1)
        reliability[rows] = (worked + 1) / (worked + failed + 1)
        return reliability[:-1]  # unknown tools came last

    def _server_popularity(self, now: float) -> Floats:
        """Returns how likely each server is in any context: float64 [servers]."""
        _, places, weights, _, _ = self._uses(now)
        served = np.zeros(len(self._places) + 1)
        np.add.at(served, places, weights)  # those of unknown servers come last
        sizes = np.bincount(self._server, minlength=len(self._places)) / len(self.ids)
        return _interpolate_servers(served[:-1], sizes, BACKOFF_MASS)

    def _uses(self, now: float) -> tuple[Ints, Ints, Floats, Floats, Floats]:
        """Returns of each of the graph's tools row, server, weight, times and failed weight."""
        rows, places = self._index()
        weights, times, failed, _ = self.graph.data.uses[: rows.size].T
        return rows, places, weights / now, times, failed / now

    def _index(self) -> tuple[Ints, Ints]:
        """Returns the row and the server of each of the graph's tools; −1 for unknown ones."""
        data = self.graph.data
        if self._indexed is None or self._indexed[:2] != (data, len(data.nodes)):
            rows = [self._rows.get(tool, -1) for tool in data.nodes]
            places = [self._places.get(server_of(tool), -1) for tool in data.nodes]
            self._indexed = (data, len(data.nodes), np.array(rows), np.array(places))
        return self._indexed[2:]

    def _arrays(self, tool: str) -> _NodeArrays:
        node, arrays = self.graph.data.nodes.get(tool, _UNSEEN), self._nodes.get(tool)
        if arrays is None or arrays.node is not node or arrays.version != node.version:
            arrays = self._nodes[tool] = _NodeArrays(node, self._rows)
        return arrays


_UNSEEN = ToolNode()


def _find_rows(rows: Mapping[str, int], tools: Iterable[str]) -> Ints:
    return np.array([rows[tool] for tool in tools if tool in rows], dtype=np.int64)


def _counts(edges: tuple[Floats, ...], now: float, *, adjacent: bool = False) -> _Counts:
    rows, following, later, following_times, later_times, stated = edges
    weights, times = (following, following_times) if adjacent else (later, later_times)
    return rows.astype(np.int64), weights / now + stated, times + stated


def _discount_counts(
    counts: Sequence[_Counts], discounted: float, size: int
) -> tuple[Floats, float]:
    """Returns weights by row with the discount taken off, [size], and their sum before that."""
    left, total = np.zeros(size), 0.0
    for rows, weights, times in counts:
        total += float(weights.sum())
        share = np.maximum(1.0 - discounted / np.maximum(times, 1.0), 0.0)
        left += np.bincount(rows, weights=weights * share, minlength=size)
    return left, total


def _interpolate(
    discounted: Floats, total: float, backoff: Floats, mass: float = BACKOFF_MASS
) -> Floats:
    """Returns probabilities from discounted counts; the discounted mass goes to the back-off.

    (d + (total − Σ d + mass) · backoff) / (total + mass), with d the discounted counts:
    interpolated absolute discounting (Ney, Essen & Kneser, 1994).
    """
    return (discounted + (total - discounted.sum() + mass) * backoff) / (total + mass)


def _interpolate_servers(weights: Floats, backoff: Floats, mass: float) -> Floats:
    """Returns the same by server: the smallest discount is taken off each weight."""
    discounted = np.maximum(weights - MIN_DISCOUNT, 0.0)
    return _interpolate(discounted, float(weights.sum()), backoff, mass)


def _standard_scores(cosines: Vectors) -> Vectors:
    shifted = cosines - cosines.mean()
    return shifted / max(float(np.sqrt(shifted @ shifted / shifted.size)), 1e-6)


def _sharpen(cosines: Vectors) -> Floats:
    """Returns nearness as a distribution: a standard deviation is worth `SHARPNESS` e-folds."""
    exponents = np.float32(SHARPNESS) * _standard_scores(cosines)
    weights = np.exp(exponents - exponents.max())
    return (weights / weights.sum()).astype(np.float64)
