"""Forecasts the next tool from counts of real use, given the tools used so far.

    P = ½ P(after the last) + ½ · mean over the tools used of P(with it)
    P(with a tool) = (counts + back-off) / (sum of the counts + 1)

*After the last* counts the tools that directly followed the last one; *with it* counts the tools
used in the same sequence, before it or after it. Half of the back-off is spread over the tools of
the last one's server, half over all. A tool whose calls fail counts less by the share that does,
and a tool that was used already not at all.

How much a tool's being next is worth is its gain: ln(P · n) / ln n for n tools, which is 0 for
chance and 1 for certainty. It counts as far as the graph has proved itself, see
`ToolGraph.predictive_skill`.
"""

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolscript.graph.counts import ToolCounts
from toolscript.graph.graph_data import ToolNode
from toolscript.graph.tool_graph import WINDOW, ToolGraph

VOUCHED = 0.5
"""The least skill behind a tool that a template puts beside one of the context."""
_TINY = 1e-12

Floats: TypeAlias = NDArray[np.float64]


class Forecast:
    """Forecasts over one corpus' tools, from a graph that goes on learning.

    ``ids`` and ``servers`` are the corpus' tools in its order.
    """

    def __init__(self, graph: ToolGraph, ids: Sequence[str], servers: Sequence[str]) -> None:
        self.graph = graph
        self.ids = tuple(ids)
        self.rows = {identifier: row for row, identifier in enumerate(self.ids)}
        self._servers = np.unique(servers, return_inverse=True)[1]

    def strengths(self, context: Sequence[str]) -> Floats | None:
        """Returns how strongly each tool is expected next: float64 [n] in [0, 1].

        The gain times the graph's skill, or for a tool that a template puts beside one of the
        context at least `VOUCHED`. None if the graph has nothing to say: it expects no tool, or
        no tool of the context has an edge.
        """
        with self.graph.lock:
            gains = self.gains(context)
            if gains is None:
                return None
            skills = np.full(len(self.ids), self.graph.predictive_skill)
            for row in self._find_templated(context):
                skills[row] = max(skills[row], VOUCHED)
        strengths = skills * np.maximum(gains, 0.0)
        return strengths if strengths.any() else None

    def gains(self, context: Sequence[str]) -> Floats | None:
        """Returns the gain of each tool, from −1: float64 [n]. None as for `chances`."""
        chances = self.chances(context)
        if chances is None:
            return None
        count = max(2, len(self.ids))
        gains = np.log(np.maximum(chances, _TINY) * count) / math.log(count)
        return np.clip(gains, -1.0, 1.0)

    def chances(self, context: Sequence[str]) -> Floats | None:
        """Returns each tool's probability to be used next: float64 [n], sum 1.

        None if no tool of the context has an edge.
        """
        used = [tool for tool in context if tool in self.rows][-WINDOW:]
        with self.graph.lock:
            nodes = [self._node(tool) for tool in used]
            if not any(node.neighbors for node in nodes):
                return None
            same = self._servers == self._servers[self.rows[used[-1]]]
            backoff = 0.5 / len(self.ids) + 0.5 * same / same.sum()
            now = self.graph.now()
            after = [(tool, each.next / now + each.stated) for tool, each in nodes[-1].out.items()]
            chances = self._smooth(after, backoff, now)
            for node in nodes:
                edges = (*node.out.items(), *node.into.items())
                along = [(tool, each.later / now + each.stated) for tool, each in edges]
                chances += self._smooth(along, backoff, now) / len(nodes)
        chances[[self.rows[tool] for tool in used]] = 0.0
        return chances / max(float(chances.sum()), _TINY)

    def evaluate(self, context: Sequence[str], tool: str) -> float:
        """Record how well a use is forecast, before it is learned; returns its gain.

        The use of a tool of the context is none that is forecast.
        """
        row = None if tool in context else self.rows.get(tool)
        gains = None if row is None else self.gains(context)
        if row is None or gains is None:
            return 0.0
        self.graph.record_gain(float(gains[row]))
        return float(gains[row])

    def _smooth(self, counts: Iterable[tuple[str, float]], backoff: Floats, now: float) -> Floats:
        chances, total = backoff.copy(), 1.0
        for tool, weight in counts:
            if tool in self.rows:
                total += weight
                chances[self.rows[tool]] += weight * _reliability(self._node(tool).uses, now)
        return chances / total

    def _find_templated(self, context: Sequence[str]) -> list[int]:
        """Returns the rows that a template puts right before or after a tool of the context."""
        edges = (
            edge
            for node in map(self._node, context)
            for edge in (*node.out.items(), *node.into.items())
        )
        return [self.rows[tool] for tool, edge in edges if edge.stated and tool in self.rows]

    def _node(self, tool: str) -> ToolNode:
        return self.graph.data.nodes.get(tool) or ToolNode()


def _reliability(uses: ToolCounts, now: float) -> float:
    """Returns the share of a tool's calls that succeed, as if one more had."""
    worked, failed = uses.weight / now, uses.failed / now
    return (worked + 1.0) / (worked + failed + 1.0)
