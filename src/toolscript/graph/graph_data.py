"""The data of a graph: its tools as nodes with counts, and the edges between them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from toolscript.graph.base import STATED
from toolscript.graph.counts import EdgeCounts, GlobalCounts, GraphDelta, ToolCounts

MAX_TOOLS = 50_000
MAX_ID_CHARS = 512
KEPT_SHARE = 0.9
"""The share of the largest number of edges that is left when there were more."""


@dataclass(eq=False, slots=True)
class ToolNode:
    """A tool with its uses and edges."""

    uses: ToolCounts = field(default_factory=ToolCounts)
    out: dict[str, EdgeCounts] = field(default_factory=dict[str, EdgeCounts])
    """Edges from this tool, by the id of the target."""
    into: dict[str, EdgeCounts] = field(default_factory=dict[str, EdgeCounts])
    """Edges to this tool, by the id of the source: the same objects as there."""

    @property
    def neighbors(self) -> dict[str, None]:
        """The ids of the tools at the other ends, each once, in a fixed order."""
        return dict.fromkeys((*self.out, *self.into))


class GraphData:
    """Nodes by the tools' ids, and sums over them. Not thread-safe: `ToolGraph` guards it."""

    def __init__(self) -> None:
        self.nodes: dict[str, ToolNode] = {}
        self.totals = GlobalCounts()
        self.edge_count = 0

    def admit(self, tool: str) -> bool:
        """Make a node for a tool that has none; returns False if there is no room for it."""
        if tool not in self.nodes:
            if len(self.nodes) >= MAX_TOOLS or not 0 < len(tool) <= MAX_ID_CHARS:
                return False
            self.nodes[tool] = ToolNode()
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
            self.nodes[tool].uses.add(uses)
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
            edge.add(counts)

    def edges(self) -> Iterator[tuple[str, str, EdgeCounts]]:
        """Yields every edge: source, target, counts."""
        for source, node in self.nodes.items():
            for target, counts in node.out.items():
                yield source, target, counts

    def prune(self, max_edges: int) -> None:
        """Remove the weakest edges, those that were stated last."""

        def strength(edge: tuple[str, str, EdgeCounts]) -> float:
            return math.inf if edge[2].kinds & STATED else edge[2].later

        ranked = sorted(self.edges(), key=strength, reverse=True)
        for source, target, _ in ranked[int(KEPT_SHARE * max_edges) :]:
            del self.nodes[source].out[target], self.nodes[target].into[source]
            self.edge_count -= 1

    def as_delta(self) -> GraphDelta:
        """Returns a copy of everything, which replaces a file's contents."""
        return GraphDelta(
            tools={tool: replace(node.uses) for tool, node in self.nodes.items()},
            edges={(source, target): replace(counts) for source, target, counts in self.edges()},
            totals=replace(self.totals),
            whole=True,
        )
