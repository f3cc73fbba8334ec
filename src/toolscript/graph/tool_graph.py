"""The graph: which tools are used together, in what order, and which needs which.

    adamic_adar_between(a, b) = Σ 1 / ln(degree(z)) over the common neighbours z of a and b

with neighbours and degrees regardless of direction (Adamic & Adar, "Friends and
neighbors on the Web", 2003). `relatedness` maps the sum into [0, 1): x / (1 + x).
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from toolscript.graph.base import (
    DEPENDENCY,
    KINDS,
    OBSERVED,
    TEMPLATE,
    Dependency,
    Direction,
    Edge,
    Stats,
    Template,
    adaptive_alpha,
)
from toolscript.graph.counts import EdgeCounts, GraphDelta, ToolCounts
from toolscript.graph.edges import Decay, Floats
from toolscript.graph.graph_data import GraphData
from toolscript.types import Grant

HALF_LIFE_DAYS = 90.0
MAX_EDGES = 200_000
"""Of too many the weakest go."""
WINDOW = 8
"""So many tools back, a use still says something about the next."""
MAX_DEPTH = 8
SKILL_PRIOR, SKILL_BEFORE = 8.0, 0.25
"""Before a graph's skill was seen, that is supposed, and counts as much as so many steps."""
DECLARED = "declared"
"""Why a tool is needed: somebody said so."""


Number = TypeVar("Number", float, Floats)


def relatedness(adamic_adar: Number) -> Number:
    """A sum of Adamic-Adar, or several, in [0, 1): x / (1 + x)."""
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
        self._decay = Decay(half_life_days)
        self._clock = clock
        self.learned = GraphData(max_edges)
        """To be looked at while ``lock`` is held; another one once it was cleared."""
        self._inferred: Mapping[str, Mapping[str, str]] = {}

    # What the seed names

    @property
    def edge_count(self) -> int:
        """How many pairs of tools are connected, each direction for itself."""
        return self.learned.edges.size

    def edges_within(self, grant: Grant) -> int:
        """The same of those whose two tools a caller may both see."""
        if grant.is_everything:
            return self.edge_count
        with self.lock:
            edges, ids = self.learned.edges, self.learned.tools.ids
            seen = np.fromiter(map(grant.allows, ids), np.bool_, len(ids))
            ends = seen[edges.source[: edges.size]] & seen[edges.target[: edges.size]]
            return int(ends.sum())

    def neighbors(self, tool: str, direction: Direction = "both") -> list[str]:
        """The tools that edges lead to (``out``), come from (``in``), or either, by id."""
        with self.lock:
            number = self.learned.tools.numbers.get(tool)
            if number is None:
                return []
            return sorted(
                self.learned.tools.ids[other] for other in self._around(number, direction)
            )

    def adamic_adar(self, tool: str, limit: int = 10) -> list[tuple[str, float]]:
        """The tools with the largest sums of Adamic-Adar with this one, best first, by id."""
        with self.lock:
            number = self.learned.tools.numbers.get(tool)
            if number is None:
                return []
            sums = self.learned.edges.adamic_adar(number, len(self.learned.tools))
            others, ids = np.flatnonzero(sums).tolist(), self.learned.tools.ids
            found = sorted((-float(sums[each]), ids[each]) for each in others if each != number)
            return [(identifier, -total) for total, identifier in found[:limit]]

    def adamic_adar_between(self, a: str, b: str) -> float:
        """The sum of Adamic-Adar of two tools; 0 where one of them is not known."""
        with self.lock:
            one, other = self.learned.tools.numbers.get(a), self.learned.tools.numbers.get(b)
            if one is None or other is None:
                return 0.0
            degrees = (len(self._around(z)) for z in self._around(one) & self._around(other))
            return math.fsum(1.0 / math.log(degree) for degree in degrees if degree > 1)

    def graph_relatedness(self, tool: str, context_tools: Iterable[str]) -> float:
        """How related a tool is to the nearest of those used so far: in [0, 1)."""
        sums = (self.adamic_adar_between(tool, used) for used in context_tools if used != tool)
        return relatedness(max(sums, default=0.0))

    def bootstrap_from_templates(self, templates: Iterable[Template]) -> int:
        """Take over ways of working; how many edges were not there before.

        A template weighs as much as one use, does not decay, and is the same
        however often it is given.
        """
        before = self.edge_count
        with self.lock:
            for template in templates:
                for source, target in template.pairs:
                    self.learned.state(source, target, EdgeCounts(stated=1.0, kinds=TEMPLATE))
        return self.edge_count - before

    # Learning

    def learn(self, calls: Iterable[str | tuple[str, bool]], when_s: float | None = None) -> None:
        """Learn from one sequence of calls: ids of tools, or those with whether it succeeded."""
        context: tuple[str, ...] = ()
        for call in calls:
            tool, succeeded = (call, True) if isinstance(call, str) else call
            context = self.observe(context, tool, succeeded=succeeded, when_s=when_s)

    def observe(
        self,
        context: Sequence[str],
        tool: str,
        *,
        succeeded: bool = True,
        when_s: float | None = None,
    ) -> tuple[str, ...]:
        """Learn that a tool was used after those of ``context``; the context from now on.

        A call that failed is counted, and leads nowhere: what a failure follows
        or is followed by says nothing about what goes together.
        """
        with self.lock:
            amount = self._decay.factor(self._clock() if when_s is None else when_s)
            number = self.learned.number(tool)
            if number is None:
                return tuple(context)
            if not succeeded:
                self.learned.use(number, ToolCounts(failed=amount, failures=1))
                return tuple(context)
            self.learned.use(number, ToolCounts(weight=amount, times=1))
            if context:
                self.learned.step(context[-WINDOW:], tool, amount)
            return append_recent(context, tool)

    def record_gain(self, gain: float) -> None:
        """Learn how well a use was foreseen: see `predictive_skill`."""
        with self.lock:
            self.learned.record_gain(gain)

    @property
    def predictive_skill(self) -> float:
        """How well the graph foresees, from 0 (no better than chance) to 1 (certain).

        Every use is foreseen before it is learned. What that gains is
        ln(p · n) / ln n, with p the probability given to what was used and n the
        number of tools: 0 for guessing, 1 for knowing. The skill is the mean, with
        `SKILL_BEFORE` counted in as if it had been seen `SKILL_PRIOR` times. A
        graph of sequences that mean nothing gets nearly 0, and so says nothing.
        """
        habits = self.learned.habits
        total = habits.gain + SKILL_PRIOR * SKILL_BEFORE
        return min(1.0, max(0.0, total / (habits.foreseen + SKILL_PRIOR)))

    @property
    def inexperience(self) -> float:
        """How much of `predictive_skill` is assumed, not measured: from 1 down to 0."""
        return SKILL_PRIOR / (self.learned.habits.foreseen + SKILL_PRIOR)

    # Dependencies

    def add_dependencies(self, pairs: Iterable[tuple[str, str]]) -> int:
        """Take over that the first of each pair needs the second; how many edges are new."""
        before = self.edge_count
        with self.lock:
            for source, target in pairs:
                self.learned.state(source, target, EdgeCounts(kinds=DEPENDENCY))
        return self.edge_count - before

    def set_inferred(self, inferred: Mapping[str, Mapping[str, str]]) -> None:
        """Take over what was inferred from a catalogue: tool → what it needs → why.

        That is no part of the graph: it comes and goes with the catalogue, is
        not kept, and `edge_count` does not count it.
        """
        self._inferred = inferred

    def needs(self, tool: str) -> dict[str, str]:
        """What a tool needs directly, each with why: declared ones first."""
        with self.lock:
            number = self.learned.tools.numbers.get(tool)
            found: dict[str, str] = {}
            if number is not None:
                others, edges = self.learned.edges.arrays(number)
                declared = others[self.learned.edges.kinds[edges] & DEPENDENCY > 0]
                found = {self.learned.tools.ids[other]: DECLARED for other in declared.tolist()}
            return found | {
                each: why for each, why in self._inferred.get(tool, {}).items() if each not in found
            }

    def dependencies(self, tool: str, depth: int = MAX_DEPTH) -> list[Dependency]:
        """What a tool needs, and what that needs, nearest first, then by id."""
        found: dict[str, Dependency] = {}
        front: list[tuple[str, tuple[str, ...]]] = [(tool, ())]
        for steps in range(1, depth + 1):
            reached: dict[str, tuple[str, ...]] = {}
            for source, path in front:
                for target in self.needs(source):
                    if target != tool and target not in found:
                        reached.setdefault(target, (*path, source))
            for target in sorted(reached):
                found[target] = Dependency(tool=target, depth=steps, path=reached[target])
            front = [(each, found[each].path) for each in sorted(reached)]
        return list(found.values())

    # Looking at it

    def edge(self, source: str, target: str) -> Edge | None:
        """One edge; None where there is none."""
        with self.lock:
            one, other = (
                self.learned.tools.numbers.get(source),
                self.learned.tools.numbers.get(target),
            )
            number = (
                None if one is None or other is None else self.learned.edges.out[one].get(other)
            )
            return None if number is None else self._edge(number)

    def strongest(self, limit: int) -> list[Edge]:
        """The edges that weigh most, strongest first."""
        with self.lock:
            edges = self.learned.edges
            weights = edges.later[: edges.size] / self.now() + edges.stated[: edges.size]
            order = np.argsort(-weights, kind="stable")[:limit]
            return [self._edge(int(number)) for number in order]

    def stats(self) -> Stats:
        """See `Stats`."""
        with self.lock:
            kinds = self.learned.edges.kinds[: self.learned.edges.size]
            return Stats(
                tools=len(self.learned.tools),
                edges=self.edge_count,
                observed=int((kinds & OBSERVED > 0).sum()),
                templates=int((kinds & TEMPLATE > 0).sum()),
                dependencies=int((kinds & DEPENDENCY > 0).sum()),
                calls=int(self.learned.tools.times.sum() + self.learned.tools.failures.sum()),
                failures=int(self.learned.tools.failures.sum()),
                skill=round(self.predictive_skill, 4),
                alpha=adaptive_alpha(self.edge_count),
            )

    def now(self) -> float:
        """What weights are divided by at this moment: see `Edges`."""
        return self._decay.factor(self._clock())

    # Keeping

    def drain_changes(self) -> GraphDelta:
        """What was learned since this was last asked, to be added to what is on the disk."""
        with self.lock:
            return self.learned.drain_changes()

    def requeue(self, change: GraphDelta) -> None:
        """What was taken could not be kept: it is handed out again."""
        with self.lock:
            self.learned.requeue(change)

    def drain_all(self) -> GraphDelta:
        """All there is, to be kept where nothing is; none of it is handed out again."""
        with self.lock:
            return self.learned.drain_all()

    def clear(self) -> None:
        """Forget everything but what is supposed."""
        with self.lock:
            self.begin_anew(GraphData.forget)

    def begin_anew(self, fill: Callable[[GraphData], None]) -> None:
        """Begin with what was kept, which ``fill`` puts in."""
        with self.lock:
            self.learned = GraphData(self._max_edges)
            fill(self.learned)

    def rebase(self, fill: Callable[[GraphData], None]) -> None:
        """Put what was kept, which ``fill`` puts in, before what was learned without it."""
        with self.lock:
            change = self.learned.drain_changes()
            self.begin_anew(fill)
            if change:
                self.learned.restore(change)

    def restore(self, change: GraphDelta) -> None:
        """Take over what was learned elsewhere."""
        with self.lock:
            self.learned.restore(change)

    # Inside

    def _around(self, number: int, direction: Direction = "both") -> set[int]:
        out: set[int] = set(self.learned.edges.out[number]) if direction != "in" else set()
        return out | set(self.learned.edges.into[number]) if direction != "out" else out

    def _edge(self, number: int) -> Edge:
        edges = self.learned.edges
        kinds = int(edges.kinds[number])
        return Edge(
            source=self.learned.tools.ids[int(edges.source[number])],
            target=self.learned.tools.ids[int(edges.target[number])],
            kinds=tuple(kind for bit, kind in enumerate(KINDS) if kinds & 1 << bit),
            weight=round(float(edges.later[number] / self.now() + edges.stated[number]), 4),
            times=int(edges.later_times[number]),
        )


def append_recent(context: Sequence[str], tool: str) -> tuple[str, ...]:
    """The context after one more use: the latest tools, each once, the last one last."""
    return (*(used for used in context if used != tool), tool)[-WINDOW:]
