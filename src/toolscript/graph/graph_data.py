"""The data of a graph: its tools as nodes with counts, and the edges between them."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import astuple, replace

from toolscript.graph.base import STATED
from toolscript.graph.counts import EdgeCounts, GlobalCounts, GraphDelta, ToolCounts
from toolscript.types import SEPARATOR

MAX_TOOLS = 50_000
MAX_ID_CHARS = 512
KEPT_SHARE = 0.9
"""The share of the largest number of edges that is left when there were more, and that may be
stated."""


@dataclass(eq=False, slots=True)
class ToolNode:
    """A tool with its edges."""

    number: int = -1
    """In the order in which tools came."""
    server: str = ""
    out: dict[str, EdgeCounts] = field(default_factory=dict[str, EdgeCounts])
    """Edges from this tool, by the id of the target."""
    into: dict[str, EdgeCounts] = field(default_factory=dict[str, EdgeCounts])
    """Edges to this tool, by the id of the source: the same objects as there."""
    version: int = 0
    """Changes with each edge."""

    @property
    def degree(self) -> int:
        """The number of edges, both directions together."""
        return len(self.out) + len(self.into)

    @property
    def neighbors(self) -> dict[str, None]:
        """The ids of the tools at the other ends, each once, in a fixed order."""
        return dict.fromkeys((*self.out, *self.into))


class GraphData:
    """Nodes by the tools' ids, and sums over them. Not thread-safe: `ToolGraph` guards it."""

    def __init__(self) -> None:
        self.nodes: dict[str, ToolNode] = {}
        self.uses = np.zeros((64, 4))
        """The fields of `ToolCounts` by `ToolNode.number`: float64 [at least nodes, 4]."""
        self.totals = GlobalCounts()
        self.edge_count = 0
        self.next_seen: Counter[int] = Counter()
        """Counts of counts: how many edges were seen n times as direct steps."""
        self.later_seen: Counter[int] = Counter()
        """The same for steps to any later tool of the sequence."""
        self.server_steps: defaultdict[str, defaultdict[str, float]] = defaultdict(
            lambda: defaultdict(float)
        )
        """Weights of direct steps, by the servers of the two tools."""

    def admit(self, tool: str) -> bool:
        """Make a node for a tool that has none; returns False if there is no room for it."""
        if tool not in self.nodes:
            if len(self.nodes) >= MAX_TOOLS or not 0 < len(tool) <= MAX_ID_CHARS:
                return False
            if len(self.nodes) == len(self.uses):
                self.uses = np.concatenate([self.uses, np.zeros_like(self.uses)])
            self.nodes[tool] = ToolNode(len(self.nodes), server_of(tool))
        return True

    def add(self, delta: GraphDelta) -> None:
        """Add counts, and take out of ``delta`` the tools and edges that do not fit."""
        for tool in dict.fromkeys(tool for pair in delta.edges for tool in pair):
            delta.tools.setdefault(tool, ToolCounts())
        refused = {tool for tool in delta.tools if not self.admit(tool)}
        for tool in refused:
            del delta.tools[tool]
        for pair in [pair for pair in delta.edges if pair[0] == pair[1] or refused & {*pair}]:
            del delta.edges[pair]
        for tool, uses in delta.tools.items():
            self.uses[self.nodes[tool].number] += astuple(uses)
        for (source, target), counts in delta.edges.items():
            self._add_edge(source, target, counts)
        self.totals.add(delta.totals)

    def _add_edge(self, source: str, target: str, counts: EdgeCounts) -> None:
        one, other = self.nodes[source], self.nodes[target]
        edge = one.out.get(target)
        if edge is None:
            edge = one.out[target] = other.into[source] = replace(counts)
            self.edge_count += 1
        else:
            self._count(edge, -1)
            edge.add(counts)
        self._count(edge, 1)
        if counts.next:
            self.server_steps[one.server][other.server] += counts.next
        one.version += 1
        other.version += 1

    def _count(self, edge: EdgeCounts, change: int) -> None:
        self.next_seen[edge.next_times] += change
        self.later_seen[edge.later_times] += change

    def edges(self) -> Iterator[tuple[str, str, EdgeCounts]]:
        """Yields every edge: source, target, counts."""
        for source, node in self.nodes.items():
            for target, counts in node.out.items():
                yield source, target, counts

    def prune(self, max_edges: int) -> None:
        """Remove the weakest edges; those that were stated stay, up to ``max_edges``."""

        def strength(edge: tuple[str, str, EdgeCounts]) -> float:
            return math.inf if edge[2].kinds & STATED else edge[2].later

        ranked = sorted(self.edges(), key=strength, reverse=True)
        stated = sum(bool(counts.kinds & STATED) for _, _, counts in ranked)
        kept = max(int(KEPT_SHARE * max_edges), min(stated, max_edges))
        for source, target, counts in ranked[kept:]:
            one, other = self.nodes[source], self.nodes[target]
            del one.out[target], other.into[source]
            one.version += 1
            other.version += 1
            self.edge_count -= 1
            self._count(counts, -1)

    def as_delta(self) -> GraphDelta:
        """Returns a copy of everything, which replaces a file's contents."""
        return GraphDelta(
            tools={
                tool: ToolCounts(weight, int(times), failed, int(failures))
                for tool, (weight, times, failed, failures) in zip(
                    self.nodes, self.uses.tolist(), strict=False
                )
            },
            edges={(source, target): replace(counts) for source, target, counts in self.edges()},
            totals=replace(self.totals),
            whole=True,
        )


def server_of(identifier: str) -> str:
    """Returns the server's name in a tool's id."""
    return identifier.partition(SEPARATOR)[0]
