"""What the graph is made of: kinds of edges, and what it says about two tools."""

from typing import Literal, TypeAlias

import msgspec

EdgeKind: TypeAlias = Literal["observed", "template", "dependency"]
KINDS: tuple[EdgeKind, ...] = ("observed", "template", "dependency")
Direction: TypeAlias = Literal["in", "out", "both"]

OBSERVED, TEMPLATE, DEPENDENCY = 1, 2, 4
"""Bits of an edge's kinds: it may be of several at once."""


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """A way of working that is known beforehand: pairs of tools, the second after the first."""

    name: str = ""
    pairs: tuple[tuple[str, str], ...]


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """What leads from one tool to another. A dependency leads from a tool to what it needs."""

    source: str
    target: str
    kinds: tuple[EdgeKind, ...]
    weight: float
    """How often the target came after the source, decayed; a template counts as one use."""
    times: int
    """How often that was seen, however long ago."""


class Dependency(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that another needs first, over how many steps, and along which tools."""

    tool: str
    depth: int
    path: tuple[str, ...]
    """From the tool that needs it to the one before it."""


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """How large the graph is, what of, and how well it foresees."""

    tools: int
    edges: int
    observed: int
    templates: int
    dependencies: int
    calls: int
    failures: int
    """Calls that were learned from, and how many of them failed."""
    predictive_skill: float = msgspec.field(name="skill")
    """From 0 (chance) to 1 (certainty): see `ToolGraph.predictive_skill`."""
    alpha: float
    """The weight that a search's own score has beside the graph's: see `adaptive_alpha`."""


def adaptive_alpha(edges: int) -> float:
    """What a search's own score weighs: less, the more the graph knows (the seed's table)."""
    if not edges:
        return 1.0
    return 0.8 if edges < 50 else 0.6 if edges < 200 else 0.5  # noqa: PLR2004 - the table itself
