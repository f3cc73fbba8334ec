"""What is counted: of tools, of edges, and of all steps from one use to the next."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_FIRST = 64
_Number = TypeVar("_Number", np.float64, np.int64)


@dataclass(slots=True)
class ToolCounts:
    """What is counted of one tool, or of all of them: decayed, and how often in all."""

    weight: float = 0.0
    times: int = 0
    failed: float = 0.0
    failures: int = 0

    def add(self, other: "ToolCounts") -> None:
        """Count those too."""
        self.weight += other.weight
        self.times += other.times
        self.failed += other.failed
        self.failures += other.failures


@dataclass(slots=True)
class GlobalCounts:
    """What holds for all tools: decayed counts of steps from one use to the next."""

    steps: float = 0.0
    repeats: float = 0.0
    """Steps to a tool that had been used shortly before,"""
    same_server: float = 0.0
    """and of the others, those that stayed with the server."""
    gain: float = 0.0
    foreseen: float = 0.0
    """See `ToolGraph.predictive_skill`: the sum of what was gained, and over how many steps."""

    def add(self, other: "GlobalCounts") -> None:
        """Count those too."""
        for name in ("steps", "repeats", "same_server", "gain", "foreseen"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(slots=True)
class EdgeCounts:
    """What was seen of one edge."""

    next: float = 0.0
    later: float = 0.0
    next_times: int = 0
    later_times: int = 0
    stated: float = 0.0
    kinds: int = 0

    def add(self, other: "EdgeCounts") -> None:
        """Count that too."""
        self.next += other.next
        self.later += other.later
        self.next_times += other.next_times
        self.later_times += other.later_times
        self.stated = max(self.stated, other.stated)
        self.kinds |= other.kinds


@dataclass(slots=True)
class GraphDelta:
    """What was learned since it was last kept: to be added to what is on the disk."""

    tools: dict[str, ToolCounts] = field(default_factory=dict[str, ToolCounts])
    edges: dict[tuple[str, str], EdgeCounts] = field(
        default_factory=dict[tuple[str, str], EdgeCounts]
    )
    habits: GlobalCounts = field(default_factory=GlobalCounts)
    whole: bool = False
    """It is everything: whatever is on the disk is gone."""

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self.tools or self.edges or self.whole or self.habits != GlobalCounts())

    def add(self, later: "GraphDelta") -> None:
        """Put a later change behind this one."""
        if later.whole:
            self.tools, self.edges, self.habits, self.whole = {}, {}, GlobalCounts(), True
        for tool, uses in later.tools.items():
            self.tools.setdefault(tool, ToolCounts()).add(uses)
        for pair, seen in later.edges.items():
            self.edges.setdefault(pair, EdgeCounts()).add(seen)
        self.habits.add(later.habits)


class Tools:
    """Every tool's uses as columns, by the tool's number. Not thread-safe."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.numbers: dict[str, int] = {}
        self.weight = np.zeros(_FIRST)
        self.failed = np.zeros(_FIRST)
        self.times = np.zeros(_FIRST, dtype=np.int64)
        self.failures = np.zeros(_FIRST, dtype=np.int64)

    def __len__(self) -> int:
        """How many."""
        return len(self.ids)

    def add(self, identifier: str) -> int:
        """A new tool's number."""
        number = self.numbers[identifier] = len(self.ids)
        self.ids.append(identifier)
        if number == self.weight.size:
            self.weight, self.failed = doubled(self.weight), doubled(self.failed)
            self.times, self.failures = doubled(self.times), doubled(self.failures)
        return number

    def use(self, number: int, uses: ToolCounts) -> None:
        """Count uses."""
        self.weight[number] += uses.weight
        self.times[number] += uses.times
        self.failed[number] += uses.failed
        self.failures[number] += uses.failures

    def fill(self, uses: Mapping[str, ToolCounts]) -> None:
        """Begin with these tools, in their order."""
        self.ids = list(uses)
        self.numbers = {identifier: number for number, identifier in enumerate(self.ids)}
        rows = [(u.weight, u.times, u.failed, u.failures) for u in uses.values()]
        room = np.zeros((max(_FIRST, 2 * len(rows)), 4))
        room[: len(rows)] = np.array(rows).reshape(-1, 4)
        self.weight, self.failed = room[:, 0].copy(), room[:, 2].copy()
        self.times, self.failures = room[:, 1].astype(np.int64), room[:, 3].astype(np.int64)

    def of(self, number: int) -> ToolCounts:
        """What is counted of one tool."""
        return ToolCounts(
            float(self.weight[number]),
            int(self.times[number]),
            float(self.failed[number]),
            int(self.failures[number]),
        )


def doubled(column: NDArray[_Number]) -> NDArray[_Number]:
    """The column with as much room again."""
    return np.concatenate([column, np.zeros_like(column)])
