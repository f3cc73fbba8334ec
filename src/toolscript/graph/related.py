"""The tools related to one, each with its evidence: used before it, after it, or needed first."""

import heapq
from collections.abc import Callable, Mapping

from toolscript.graph.base import DEPENDENCY, SHARED, TEMPLATE
from toolscript.graph.counts import EdgeCounts
from toolscript.graph.graph_data import ToolNode
from toolscript.graph.tool_graph import ToolGraph
from toolscript.types import Related, Relations

LIMIT = 3
MIN_USES = 3
"""With fewer uses, or uses of one session alone, two tools are not said to go together."""


def relations(
    graph: ToolGraph,
    tool: str,
    known: Callable[[str], bool] = lambda _: True,
    limit: int = LIMIT,
) -> Relations:
    """Returns the tools that go with one, best first, at most ``limit`` of each kind.

    ``known`` says whether a tool may be shown.
    """
    with graph.lock:
        node = graph.data.nodes.get(tool, ToolNode())
        needed = (o for o, edge in node.out.items() if edge.kinds & DEPENDENCY and known(o))
        return Relations(
            before=_beside(graph, node.into, "before", known, limit),
            after=_beside(graph, node.out, "after", known, limit),
            needs=tuple(
                Related(tool=other, score=1.0, evidence="declared to be needed first")
                for other in sorted(needed)[:limit]
            ),
        )


def _beside(
    graph: ToolGraph,
    edges: Mapping[str, EdgeCounts],
    where: str,
    known: Callable[[str], bool],
    limit: int,
) -> tuple[Related, ...]:
    now = graph.now()
    weights = {other: edge.later / now + edge.stated for other, edge in edges.items()}
    total = sum(weights.values()) or 1.0
    shown = (
        (-weights[other], other)
        for other, edge in edges.items()
        if _is_habit(edge) and known(other)
    )
    return tuple(
        Related(
            tool=other,
            score=round(-weight / total, 4),
            evidence=_evidence(edges[other], where),
        )
        for weight, other in heapq.nsmallest(limit, shown)
    )


def _is_habit(edge: EdgeCounts) -> bool:
    """Whether a template states the edge, or two sessions have used it `MIN_USES` times."""
    used = edge.later_times >= MIN_USES and edge.kinds & SHARED
    return bool(used or edge.kinds & TEMPLATE)


def _evidence(edge: EdgeCounts, where: str) -> str:
    evidence: list[str] = []
    if edge.next_times:
        evidence.append(f"used right {where} it {_times(edge.next_times)}")
    elif edge.later_times:
        evidence.append(f"used {where} it {_times(edge.later_times)}")
    if edge.kinds & TEMPLATE:
        evidence.append(f"{where} it in a template")
    return "; ".join(evidence)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
