"""The types of the graph: templates, edges, dependencies, figures; the protocol of its store."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, TypeVar

import msgspec

if TYPE_CHECKING:
    from toolscript.graph.counts import GraphDelta
    from toolscript.graph.usage import UsageChange

_Stored_contra = TypeVar("_Stored_contra", contravariant=True)
EdgeKind: TypeAlias = Literal["observed", "template", "dependency"]
KINDS: tuple[EdgeKind, ...] = ("observed", "template", "dependency")
Direction: TypeAlias = Literal["in", "out", "both"]

Everything: TypeAlias = Callable[[], tuple["GraphDelta", "UsageChange"]]
"""Returns the whole graph and the whole usage, to replace the stored ones."""

OBSERVED, TEMPLATE, DEPENDENCY = 1, 2, 4
"""Bits of an edge's kinds: it may have several at once."""
SHARED = 8
"""Another such bit, which no user sees: two different sessions have used the edge."""
STATED = TEMPLATE | DEPENDENCY
"""The kinds that people or configurations state; use does not make them."""


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow that is known beforehand: pairs of tools, the second used after the first."""

    pairs: tuple[tuple[str, str], ...]


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """An edge from one tool to another; for a dependency, from a tool to the one it needs."""

    source: str
    target: str
    kinds: tuple[EdgeKind, ...]
    weight: float
    """How often the target came after the source, decayed; a template counts as one use."""
    times: int
    """How often that was seen, without decay."""


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a graph, and how well it forecasts."""

    tools: int
    edges: int
    observed: int
    templates: int
    dependencies: int
    calls: int
    """All calls that were learned from."""
    failures: int
    """Those of them that failed."""
    predictive_skill: float = msgspec.field(name="skill")
    """From 0 (chance) to 1 (certainty): see `ToolGraph.predictive_skill`."""
    alpha: float
    """The weight of a search's own score: see `adaptive_alpha`."""


class LearnedCounts(Protocol[_Stored_contra]):
    """A graph, or the usage of its tools, in memory."""

    def rebase(self, stored: _Stored_contra) -> None:
        """Reapplies unsaved changes on top of the stored counts."""
        ...


class GraphStorage(Protocol):
    """Stores the counts that processes learn. Each process adds its own, at any time.

    Any thread may call, one at a time; methods block for a moment. A failure of the storage
    is logged.
    """

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Has a function called, in any thread, when other processes may have added something."""
        ...

    def load(self, graph: "LearnedCounts[GraphDelta]", usage: "LearnedCounts[UsageChange]") -> bool:
        """Loads the stored counts into a graph and its usage; returns False to be called again."""
        ...

    def add(
        self,
        change: "GraphDelta",
        usage: "UsageChange",
        everything: Everything | None = None,
    ) -> bool:
        """Adds changes; returns whether they are stored.

        A change that is ``whole`` replaces what every process has added before. Storage that is
        empty may take ``everything``, which includes the change, in place of it.
        """
        ...


def adaptive_alpha(edges: int) -> float:
    """Returns the weight of a search's own score, which falls as the graph grows."""
    if not edges:
        return 1.0
    return 0.8 if edges < 50 else 0.6 if edges < 200 else 0.5  # noqa: PLR2004 - the table itself
