"""What was learned of the use of tools, and what of that is not kept yet.

What does not fit is not learned; of too many edges the weakest go. Not
thread-safe: `ToolGraph` sees to that, and answers what is asked of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolscript.graph.base import DEPENDENCY, OBSERVED, TEMPLATE
from toolscript.graph.counts import EdgeCounts, GlobalCounts, GraphDelta, ToolCounts, Tools
from toolscript.graph.edges import Edges, Ints
from toolscript.types import SEPARATOR

MAX_TOOLS = 50_000
MAX_ID_CHARS = 512
KEPT = 0.9
"""Of so many edges as there may be, this share is left when there were more."""
_SKILL_KEPT = 0.999
"""Of what was foreseen, so much still counts one step later, once there is enough of it."""


class GraphData:
    """Tools, edges, and what holds for all of them."""

    def __init__(self, max_edges: int) -> None:
        self._max_edges = max_edges
        self.tools = Tools()
        self.edges = Edges()
        self.habits = GlobalCounts()
        self.servers: dict[str, dict[str, float]] = {}
        """Steps from one server to another, decayed,"""
        self.served: dict[str, float] = {}
        """and uses of each server's tools."""
        self._change = GraphDelta()
        self._pruned = False

    def drain_changes(self) -> GraphDelta:
        """What was learned since this was last asked, to be added to what is on the disk."""
        if self._pruned:
            return self.drain_all()
        change, self._change = self._change, GraphDelta()
        return change

    def requeue(self, change: GraphDelta) -> None:
        """What was taken could not be kept: it is handed out again."""
        change.add(self._change)
        self._change = change

    def drain_all(self) -> GraphDelta:
        """All there is, to be kept instead of what is on the disk; none of it is taken again."""
        self._change, self._pruned = GraphDelta(), False
        change, edges = GraphDelta(whole=True, habits=replace(self.habits)), self.edges
        change.tools = {each: self.tools.of(n) for n, each in enumerate(self.tools.ids)}
        for edge in range(edges.size):
            source, target = int(edges.source[edge]), int(edges.target[edge])
            change.edges[self.tools.ids[source], self.tools.ids[target]] = edges.seen(edge)
        return change

    def forget(self) -> None:
        """Whatever is on the disk is to go, too."""
        self._change.whole = True

    def record_gain(self, gain: float) -> None:
        """Learn how well a use was foreseen: see `ToolGraph.predictive_skill`."""
        for habits in (self.habits, self._change.habits):
            habits.gain += gain
            habits.foreseen += 1.0
        if self.habits.foreseen > 1 / (1 - _SKILL_KEPT):
            self.habits.gain *= _SKILL_KEPT
            self.habits.foreseen *= _SKILL_KEPT

    def number(self, identifier: str) -> int | None:
        """The tool's number; it is made where there is none, and there is room."""
        number = self.tools.numbers.get(identifier)
        if number is None:
            if len(self.tools) >= MAX_TOOLS or not 0 < len(identifier) <= MAX_ID_CHARS:
                return None
            number = self.tools.add(identifier)
            self.edges.add_tools(len(self.tools))
        return number

    def use(self, number: int, uses: ToolCounts) -> None:
        """Count uses of a tool."""
        self.tools.use(number, uses)
        identifier = self.tools.ids[number]
        self._count_served(identifier, uses)
        self._change.tools.setdefault(identifier, ToolCounts()).add(uses)

    def step(self, context: Sequence[str], tool: str, amount: float) -> None:
        """Count that a tool was used after those of ``context``."""
        last, repeated = context[-1], tool in context
        stays = not repeated and server_of(last) == server_of(tool)
        for habits in (self.habits, self._change.habits):
            habits.steps += amount
            habits.repeats += amount * repeated
            habits.same_server += amount * stays
        for used in dict.fromkeys(context):
            if used != tool:
                adjacent = used == last
                new = EdgeCounts(next=amount * adjacent, later=amount, kinds=OBSERVED)
                new.next_times, new.later_times = int(adjacent), 1
                self._see(used, tool, amount, new)

    def state(self, source: str, target: str, seen: EdgeCounts) -> None:
        """Take over an edge as a whole: stated, or from elsewhere."""
        one, other = self.number(source), self.number(target)
        if one is None or other is None or one == other:
            return
        edges = self.edges
        edge = edges.at(one, other)
        edges.next[edge] += seen.next
        edges.later[edge] += seen.later
        edges.next_times[edge] += seen.next_times
        edges.later_times[edge] += seen.later_times
        edges.stated[edge] = max(edges.stated[edge], seen.stated)
        edges.kinds[edge] |= seen.kinds
        self._keep_change(source, target, seen)
        if seen.next:
            self._serve(source, target, seen.next)
        self._bound()

    def fill(
        self,
        tools: Mapping[str, ToolCounts],
        sources: Ints,
        targets: Ints,
        columns: Mapping[str, NDArray[Any]],
        habits: GlobalCounts,
    ) -> None:
        """Begin with what was kept: tools in order, and edges between their places.

        ``columns`` are those of `Edges` by name, each as long as sources and targets.
        """
        self.tools.fill(tools)
        for identifier, uses in tools.items():
            self._count_served(identifier, uses)
        self.edges.fill(len(tools), sources, targets, columns)
        self.habits = habits
        self._count_servers()
        self._bound()
        self._change = GraphDelta()

    def restore(self, change: GraphDelta) -> None:
        """Take over what was learned elsewhere."""
        for identifier, uses in change.tools.items():
            number = self.number(identifier)
            if number is not None:
                self.use(number, uses)
        for (source, target), seen in change.edges.items():
            self.state(source, target, seen)
        self.edges.count_again()
        self.habits.add(change.habits)
        self._change.habits.add(change.habits)

    def _see(self, used: str, tool: str, amount: float, new: EdgeCounts) -> None:
        source, target = self.number(used), self.number(tool)
        if source is None or target is None:
            return
        edge = self.edges.see(source, target, amount, adjacent=bool(new.next_times))
        self.edges.kinds[edge] |= OBSERVED
        self._keep_change(used, tool, new)
        if new.next_times:
            self._serve(used, tool, amount)
        self._bound()

    def _count_served(self, identifier: str, uses: ToolCounts) -> None:
        if uses.weight:
            server = server_of(identifier)
            self.served[server] = self.served.get(server, 0.0) + uses.weight

    def _serve(self, source: str, target: str, amount: float) -> None:
        row = self.servers.setdefault(server_of(source), {})
        row[server_of(target)] = row.get(server_of(target), 0.0) + amount

    def _keep_change(self, source: str, target: str, seen: EdgeCounts) -> None:
        for identifier in (source, target):
            self._change.tools.setdefault(identifier, ToolCounts())
        self._change.edges.setdefault((source, target), EdgeCounts()).add(seen)

    def _bound(self) -> None:
        """Drop the weakest edges where there are too many; what was stated stays."""
        edges = self.edges
        if edges.size <= self._max_edges:
            return
        weights = edges.later[: edges.size].copy()
        weights[edges.kinds[: edges.size] & (TEMPLATE | DEPENDENCY) > 0] = np.inf
        kept = np.argsort(-weights, kind="stable")[: int(KEPT * self._max_edges)]
        edges.keep(np.sort(kept))
        self._pruned = True

    def _count_servers(self) -> None:
        """The steps between servers, from the edges."""
        names = sorted({server_of(each) for each in self.tools.ids})
        place = {name: at for at, name in enumerate(names)}
        of = np.array([place[server_of(each)] for each in self.tools.ids], dtype=np.int64)
        edges = self.edges
        size = edges.size
        pairs = of[edges.source[:size]] * len(names) + of[edges.target[:size]]
        found, at = np.unique(pairs, return_inverse=True)
        totals = np.bincount(at, weights=edges.next[:size], minlength=found.size)
        for pair, total in zip(found, totals.tolist(), strict=True):
            source, target = divmod(int(pair), len(names))
            if total > 0:
                self.servers.setdefault(names[source], {})[names[target]] = total


def server_of(identifier: str) -> str:
    """The server of a tool's id."""
    return identifier.partition(SEPARATOR)[0]
