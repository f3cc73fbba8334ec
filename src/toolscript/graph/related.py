"""What goes with a tool, each with its evidence: used before it, used after it, needed first."""

from collections.abc import Callable

from toolscript.graph.base import DEPENDENCY, TEMPLATE
from toolscript.graph.counts import Seen
from toolscript.graph.edges import discount
from toolscript.graph.toolgraph import DECLARED, ToolGraph
from toolscript.types import Related, Relations

LIMIT = 3
NEED_DEPTH = 3
"""Over so many steps what a tool needs is shown."""


def relations(
    graph: ToolGraph,
    tool: str,
    known: Callable[[str], bool] = lambda _: True,
    limit: int = LIMIT,
) -> Relations:
    """The tools that go with one, best first; only those that are ``known``."""
    needed = [each for each in graph.dependencies(tool, NEED_DEPTH) if known(each.tool)]
    return Relations(
        before=_beside(graph, tool, known, limit, into=True),
        after=_beside(graph, tool, known, limit, into=False),
        needs=tuple(
            Related(
                tool=each.tool,
                score=round(1 / each.depth, 4),
                evidence=_why(graph, each.path[-1], each.tool),
            )
            for each in needed[:limit]
        ),
    )


def _beside(
    graph: ToolGraph, tool: str, known: Callable[[str], bool], limit: int, *, into: bool
) -> tuple[Related, ...]:
    with graph.lock:
        edges = graph.edges
        off, now = discount(edges.once, edges.twice), graph.now()
        beside = [(other, seen) for other, seen in graph.seen(tool, into=into) if known(other)]
    weights = {
        other: seen.later / now * max(0.0, 1 - off / max(1, seen.later_times)) + seen.stated
        for other, seen in beside
        if seen.kinds != DEPENDENCY
    }
    total = sum(seen.later / now + seen.stated for _, seen in beside) or 1.0
    evidence = {other: _evidence(seen, into=into) for other, seen in beside}
    best = sorted(weights, key=lambda other: (-weights[other], other))[:limit]
    return tuple(
        Related(tool=each, score=round(weights[each] / total, 4), evidence=evidence[each])
        for each in best
    )


def _evidence(seen: Seen, *, into: bool) -> str:
    where = "before" if into else "after"
    said: list[str] = []
    if seen.next_times:
        said.append(f"used right {where} it {_times(seen.next_times)}")
    elif seen.later_times:
        said.append(f"used {where} it {_times(seen.later_times)}")
    if seen.kinds & TEMPLATE:
        said.append(f"{where} it in a template")
    return "; ".join(said)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _why(graph: ToolGraph, tool: str, needed: str) -> str:
    why = graph.needs(tool).get(needed, DECLARED)
    return f"needed by {tool}: {why}"
