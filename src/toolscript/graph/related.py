"""What goes with a tool, each with its evidence: used before it, used after it, needed first."""

from collections.abc import Callable
from itertools import islice

import numpy as np

from toolscript.graph.base import DEPENDENCY, TEMPLATE
from toolscript.graph.counts import EdgeCounts
from toolscript.graph.edges import Floats, discount
from toolscript.graph.tool_graph import DECLARED, ToolGraph
from toolscript.types import Related, Relations

LIMIT = 3
LOOKED_AT = 4
"""So many times the limit are looked at first: a hub has thousands of edges."""
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
        number = graph.learned.tools.numbers.get(tool)
        if number is None:
            return ()
        edges = graph.learned.edges
        others, found = edges.arrays(number, into=into)
        used = edges.later[found] / graph.now()
        off = discount(edges.once, edges.twice) / np.maximum(1, edges.later_times[found])
        weights = used * np.maximum(0.0, 1.0 - off) + edges.stated[found]
        total = float(used.sum() + edges.stated[found].sum()) or 1.0
        weights[edges.kinds[found] == DEPENDENCY] = -1.0

        def name(at: int) -> str:
            return graph.learned.tools.ids[int(others[at])]

        return tuple(
            Related(
                tool=name(at),
                score=round(float(weights[at]) / total, 4),
                evidence=_evidence(edges.seen(int(found[at])), into=into),
            )
            for at in _best(weights, name, known, limit)
        )


def _best(
    weights: Floats, name: Callable[[int], str], known: Callable[[str], bool], limit: int
) -> list[int]:
    """The places of the largest weights of tools that are known, by (−weight, id)."""
    best: list[int] = []
    for most in (LOOKED_AT * limit, weights.size):  # few of many, and all where these are not known
        least = 0.0 if most >= weights.size else np.partition(weights, -most)[-most]
        places: list[int] = np.flatnonzero(weights >= max(0.0, least)).tolist()
        places.sort(key=lambda at: (-weights[at], name(at)))
        best = list(islice((at for at in places if known(name(at))), limit))
        if len(best) == limit or most >= weights.size:
            break
    return best


def _evidence(seen: EdgeCounts, *, into: bool) -> str:
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
