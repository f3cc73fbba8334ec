"""Counts of use: of a tool, of an edge, of all forecasts, and the latest additions to them.

Weights decay exponentially. Instead of lowering all of them as time goes by, a later
use adds more, see `ToolGraph.weight_unit`, and a weight is divided by the unit of the
present when it is read. So an update touches one number.
"""

from dataclasses import dataclass, field

import msgspec


class ToolCounts(msgspec.Struct, gc=False):
    """One tool's uses: decayed weights, and plain numbers."""

    weight: float = 0.0
    times: int = 0
    failed: float = 0.0
    failures: int = 0

    def add(self, other: "ToolCounts") -> None:
        """Add other counts to these."""
        self.weight += other.weight
        self.times += other.times
        self.failed += other.failed
        self.failures += other.failures


class GlobalCounts(msgspec.Struct, gc=False):
    """How well uses were forecast: see `ToolGraph.predictive_skill`."""

    gain: float = 0.0
    """The sum of all forecasts' gains."""
    foreseen: float = 0.0
    """The number of those forecasts."""

    def add(self, other: "GlobalCounts") -> None:
        """Add other counts to these."""
        self.gain += other.gain
        self.foreseen += other.foreseen


class EdgeCounts(msgspec.Struct, gc=False):
    """The counts of an edge: uses of its target after its source."""

    next: float = 0.0
    """Weight of the uses that came directly one after the other."""
    later: float = 0.0
    """Weight of all uses in the same sequence, those included."""
    next_times: int = 0
    later_times: int = 0
    stated: float = 0.0
    """Weight that a template gives: it does not decay."""
    kinds: int = 0
    """Bits: see `toolscript.graph.base.OBSERVED`."""

    def add(self, other: "EdgeCounts") -> None:
        """Adds other counts to these; an edge that is stated twice counts once."""
        self.next += other.next
        self.later += other.later
        self.next_times += other.next_times
        self.later_times += other.later_times
        self.stated = max(self.stated, other.stated)
        self.kinds |= other.kinds


@dataclass(slots=True)
class GraphDelta:
    """Counts to be added to a graph or to its file."""

    tools: dict[str, ToolCounts] = field(default_factory=dict[str, ToolCounts])
    edges: dict[tuple[str, str], EdgeCounts] = field(
        default_factory=dict[tuple[str, str], EdgeCounts]
    )
    """Edges by the ids of source and target."""
    totals: GlobalCounts = field(default_factory=GlobalCounts)
    whole: bool = False
    """It replaces the file's contents instead of being added to them."""

    def __bool__(self) -> bool:
        """Whether it changes anything."""
        return bool(self.tools or self.edges or self.whole or self.totals != GlobalCounts())

    def add(self, later: "GraphDelta") -> None:
        """Add a later delta to this one."""
        if later.whole:
            self.tools, self.edges, self.totals, self.whole = {}, {}, GlobalCounts(), True
        for tool, uses in later.tools.items():
            self.tools.setdefault(tool, ToolCounts()).add(uses)
        for pair, edge in later.edges.items():
            self.edges.setdefault(pair, EdgeCounts()).add(edge)
        self.totals.add(later.totals)
