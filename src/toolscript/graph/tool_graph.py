"""The graph: which tools are used together, in which order, and which needs which.

    adamic_adar_between(a, b) = Σ 1 / ln(degree(z)) over the common neighbours z of a and b

with neighbours and degrees regardless of direction (Adamic & Adar, "Friends and
neighbors on the Web", Social Networks 25, 2003). `relatedness` maps the sum into
[0, 1): x / (1 + x).
"""

import heapq
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

from toolscript.graph.base import (
    DEPENDENCY,
    KINDS,
    OBSERVED,
    SHARED,
    TEMPLATE,
    Direction,
    Edge,
    Stats,
    Template,
    adaptive_alpha,
)
from toolscript.graph.counts import EdgeCounts, GlobalCounts, GraphDelta, ToolCounts
from toolscript.graph.graph_data import GraphData, ToolNode
from toolscript.types import Grant

EPOCH = 1_767_225_600.0
"""The moment, in seconds, whose uses weigh 1: the start of 2026, but any would do."""
HALF_LIFE_DAYS = 90.0
_DAY_S = 86_400.0
MAX_EDGES = 200_000
WINDOW = 8
"""The number of previous tools from which a use makes an edge."""
MAX_PAIRS = 10_000
"""The maximum number of pairs of one session that are told from those of other sessions."""
UNPROVEN_STEPS = 8.0
"""The number of forecasts no better than chance that are counted in before the first real one."""
_SKILL_DECAY = 0.999
"""The factor on the weight of earlier forecasts with each later one."""

_NOTICEABLE_SKILL = 0.1


def relatedness(adamic_adar: float) -> float:
    """Returns a sum of Adamic-Adar in [0, 1): x / (1 + x)."""
    return adamic_adar / (1.0 + adamic_adar)


class ToolGraph:
    """A directed, weighted graph with typed edges. Thread-safe; lives as long as the application.

    Learning one use takes microseconds. ``clock`` gives the time in seconds.
    """

    def __init__(
        self,
        *,
        half_life_days: float = HALF_LIFE_DAYS,
        max_edges: int = MAX_EDGES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.lock = threading.RLock()
        self._max_edges = max_edges
        self._half_life_s = half_life_days * _DAY_S
        self._clock = clock
        self.data = GraphData()
        """To be read while ``lock`` is held; replaced when the graph is cleared or loaded."""
        self._change = GraphDelta()
        self._pruned = False

    # Structure

    @property
    def edge_count(self) -> int:
        """How many pairs of tools are connected, each direction for itself."""
        return self.data.edge_count

    def edges_within(self, grant: Grant) -> int:
        """Returns how many edges there are between tools that a caller may see."""
        if grant.is_everything:
            return self.edge_count
        with self.lock:
            visible = set(filter(grant.allows, self.data.nodes))
            return sum(len(visible & self.data.nodes[tool].out.keys()) for tool in visible)

    def neighbors(self, tool: str, direction: Direction = "both") -> list[str]:
        """Returns the tools that edges lead to (``out``), come from (``in``), or both, by id."""
        with self.lock:
            node = self._node(tool)
            ways = {"out": node.out, "in": node.into, "both": node.neighbors}
            return sorted(ways[direction])

    def adamic_adar(self, tool: str, limit: int = 10) -> list[tuple[str, float]]:
        """Returns the tools with the largest sums of Adamic-Adar with this one, best first."""
        with self.lock:
            sums = self._sum_neighbors(tool)
        return heapq.nsmallest(limit, sums.items(), key=lambda pair: (-pair[1], pair[0]))

    def adamic_adar_between(self, a: str, b: str) -> float:
        """Returns the sum of Adamic-Adar of two tools; 0 if the graph lacks one of them."""
        with self.lock:
            common = self._node(a).neighbors.keys() & self._node(b).neighbors.keys()
            degrees = (len(self._node(z).neighbors) for z in common)
            return math.fsum(1.0 / math.log(degree) for degree in degrees if degree > 1)

    def graph_relatedness(self, tool: str, context_tools: Iterable[str]) -> float:
        """Returns how related a tool is to the nearest of those used so far: in [0, 1)."""
        sums = (self.adamic_adar_between(tool, used) for used in context_tools if used != tool)
        return relatedness(max(sums, default=0.0))

    def related_to(self, context_tools: Iterable[str]) -> dict[str, float] | None:
        """Returns the `graph_relatedness` of every tool for which it is above 0, by id.

        None if no tool of the context has an edge: then the graph has nothing to say.
        """
        with self.lock:
            used = [tool for tool in dict.fromkeys(context_tools) if self._node(tool).neighbors]
            sums = [self._sum_neighbors(tool) for tool in used]
        largest: dict[str, float] = {}
        for tool, total in chain.from_iterable(each.items() for each in sums):
            largest[tool] = max(total, largest.get(tool, 0.0))
        return {tool: relatedness(total) for tool, total in largest.items()} if used else None

    def strongest(self, limit: int, allows: Callable[[str], bool] | None = None) -> list[Edge]:
        """Returns the edges that weigh most, strongest first, then by id.

        Only those between tools that ``allows`` accepts, if it is given.
        """
        with self.lock:
            now = self.now()
            edges = (
                (-(counts.later / now + counts.stated), source, target, counts)
                for source, target, counts in self.data.edges()
                if allows is None or (allows(source) and allows(target))
            )
            best = heapq.nsmallest(limit, edges, key=lambda edge: edge[:3])
            return [self._edge(*edge[1:]) for edge in best]

    def stats(self) -> Stats:
        """Returns how large the graph is: see `Stats`."""
        with self.lock:
            kinds = [counts.kinds for _, _, counts in self.data.edges()]
            uses = [node.uses for node in self.data.nodes.values()]
            failures = sum(each.failures for each in uses)
            return Stats(
                tools=len(self.data.nodes),
                edges=self.edge_count,
                observed=sum(bool(bits & OBSERVED) for bits in kinds),
                templates=sum(bool(bits & TEMPLATE) for bits in kinds),
                dependencies=sum(bool(bits & DEPENDENCY) for bits in kinds),
                calls=failures + sum(each.times for each in uses),
                failures=failures,
                predictive_skill=round(self.predictive_skill, 4),
                alpha=adaptive_alpha(self.edge_count),
            )

    # Learning

    def bootstrap_from_templates(self, templates: Iterable[Template]) -> int:
        """Add the edges of templates; returns how many of them are new.

        A template weighs as much as one use, does not decay, and counts once
        however often it is given.
        """
        pairs = (pair for template in templates for pair in template.pairs)
        return self._state(dict.fromkeys(pairs), EdgeCounts(stated=1.0, kinds=TEMPLATE))

    def add_dependencies(self, pairs: Iterable[tuple[str, str]]) -> int:
        """Add that the first tool of each pair needs the second; returns how many are new."""
        return self._state(dict.fromkeys(pairs), EdgeCounts(kinds=DEPENDENCY))

    def _state(self, pairs: Iterable[tuple[str, str]], counts: EdgeCounts) -> int:
        with self.lock:
            before = self.edge_count
            self._apply(GraphDelta(edges=dict.fromkeys(pairs, counts)))
            return self.edge_count - before

    def learn(
        self,
        calls: Iterable[str | tuple[str, bool]],
        evaluate: Callable[[tuple[str, ...], str], object] | None = None,
    ) -> None:
        """Learn from one sequence of calls: ids of tools, or those with whether it succeeded.

        ``evaluate`` is called with the context and the tool of each step before it is learned.
        """
        context, pairs = (), set[tuple[str, str]]()
        for call in calls:
            tool, succeeded = (call, True) if isinstance(call, str) else call
            if evaluate and succeeded and context:
                evaluate(context, tool)
            context = self.observe(context, tool, succeeded=succeeded, pairs=pairs)

    def observe(
        self,
        context: Sequence[str],
        tool: str,
        *,
        succeeded: bool = True,
        when_s: float | None = None,
        pairs: set[tuple[str, str]] | None = None,
    ) -> tuple[str, ...]:
        """Learn that a tool was used after those of ``context``; returns the new context.

        A call that failed is counted, but makes no edge: the calls around
        a failure say nothing about tools that go together. ``pairs`` are those that
        the session has used so far; new ones are added to them.
        """
        with self.lock:
            unit = self.weight_unit(self._clock() if when_s is None else when_s)
            if not self.data.admit(tool):
                return tuple(context)
            if not succeeded:
                self._apply(GraphDelta({tool: ToolCounts(failed=unit, failures=1)}))
                return tuple(context)
            delta = GraphDelta({tool: ToolCounts(weight=unit, times=1)})
            if context:
                _count_step(delta, context[-WINDOW:], tool, unit)
                self._mark_shared(delta.edges, set() if pairs is None else pairs)
            self._apply(delta)
            return append_recent(context, tool)

    def record_gain(self, gain: float) -> None:
        """Learn how well a use was forecast: see `predictive_skill`."""
        with self.lock:
            self._apply(GraphDelta(totals=GlobalCounts(gain=gain, foreseen=1.0)))
            totals = self.data.totals
            if totals.foreseen > 1 / (1 - _SKILL_DECAY):
                totals.gain *= _SKILL_DECAY
                totals.foreseen *= _SKILL_DECAY

    @property
    def foresees(self) -> bool:
        """Whether the graph has forecast noticeably better than chance so far."""
        return self.predictive_skill >= _NOTICEABLE_SKILL

    @property
    def predictive_skill(self) -> float:
        """How well the graph forecasts, from 0 (no better than chance) to 1 (certain).

        Every use is forecast before it is learned. The gain of a forecast is
        ln(p · n) / ln n, with p the probability given to the used tool and n the
        number of tools: 0 for guessing, 1 for knowing. The skill is the mean gain,
        with `UNPROVEN_STEPS` gains of 0 counted in: a new graph has proved nothing.
        """
        totals = self.data.totals
        return min(1.0, max(0.0, totals.gain / (totals.foreseen + UNPROVEN_STEPS)))

    # Storing

    def weight_unit(self, when_s: float) -> float:
        """Returns the weight of a use at a moment: it doubles every half-life."""
        return float(2.0 ** ((when_s - EPOCH) / self._half_life_s))

    def now(self) -> float:
        """Returns the unit of the present, by which weights are divided when they are read."""
        return self.weight_unit(self._clock())

    def drain_changes(self) -> GraphDelta:
        """Returns the changes since the last call; everything if edges were pruned."""
        with self.lock:
            if self._pruned:
                return self.drain_all()
            change, self._change = self._change, GraphDelta()
            return change

    def requeue(self, change: GraphDelta) -> None:
        """Put back a drained change that could not be stored."""
        with self.lock:
            change.add(self._change)
            self._change = change

    def drain_all(self) -> GraphDelta:
        """Returns everything, to replace the file's contents; leaves no change to drain."""
        with self.lock:
            self._change, self._pruned = GraphDelta(), False
            return self.data.as_delta()

    def clear(self) -> None:
        """Forgets everything; the next change clears the file."""
        with self.lock:
            self.data, self._change = GraphData(), GraphDelta(whole=True)

    def rebase(self, stored: GraphDelta) -> None:
        """Reapplies unsaved changes on top of the stored counts."""
        with self.lock:
            self.data, self._pruned = GraphData(), False
            if not self._change.whole:
                self.data.add(stored)
            self.data.add(self._change)
            self._prune()

    # Inside

    def _apply(self, delta: GraphDelta) -> None:
        self.data.add(delta)
        self._change.add(delta)
        self._prune()

    def _mark_shared(
        self, edges: Mapping[tuple[str, str], EdgeCounts], pairs: set[tuple[str, str]]
    ) -> None:
        """Mark the edges that another session than that of ``pairs`` has used before."""
        for pair in edges.keys() - pairs if len(pairs) < MAX_PAIRS else ():
            pairs.add(pair)
            before = self._node(pair[0]).out.get(pair[1])
            if before is not None and before.later_times:
                edges[pair].kinds |= SHARED

    def _prune(self) -> None:
        if self.edge_count > self._max_edges:
            self.data.prune(self._max_edges)
            self._pruned = True

    def _sum_neighbors(self, tool: str) -> dict[str, float]:
        """Returns the sum of Adamic-Adar of a tool with each that shares a neighbour with it."""
        sums: defaultdict[str, float] = defaultdict(float)
        for neighbor in self._node(tool).neighbors:
            around = self._node(neighbor).neighbors
            for other in around if len(around) > 1 else ():
                sums[other] += 1.0 / math.log(len(around))
        sums.pop(tool, None)
        return sums

    def _node(self, tool: str) -> ToolNode:
        return self.data.nodes.get(tool) or ToolNode()

    def _edge(self, source: str, target: str, counts: EdgeCounts) -> Edge:
        return Edge(
            source=source,
            target=target,
            kinds=tuple(kind for bit, kind in enumerate(KINDS) if counts.kinds & 1 << bit),
            weight=round(counts.later / self.now() + counts.stated, 4),
            times=counts.later_times,
        )


def append_recent(context: Sequence[str], tool: str) -> tuple[str, ...]:
    """Returns the context after one more use: the latest tools, each once, the last one last."""
    return (*(used for used in context if used != tool), tool)[-WINDOW:]


def _count_step(delta: GraphDelta, context: Sequence[str], tool: str, unit: float) -> None:
    """Count a step from the tools of a context to one more."""
    for used in context:
        adjacent = used == context[-1]
        delta.edges[used, tool] = EdgeCounts(
            unit * adjacent, unit, int(adjacent), later_times=1, kinds=OBSERVED
        )
