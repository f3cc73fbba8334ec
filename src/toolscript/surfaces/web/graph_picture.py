"""The picture of the graph: tools on a circle, sorted by server, with an arrow for each edge."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from toolscript.graph.base import Edge

MAX_NODES = 40
_RADIUS = 190.0
_WIDTH, _HEIGHT = 860.0, 460.0
_PULL = 0.35
"""How far arrows bend towards the centre."""
_NAME_CHARS = 24


class Node(NamedTuple):
    """A tool: the place of its dot, and of its name."""

    id: str
    name: str
    x: float
    y: float
    text_x: float
    text_y: float
    anchor: str


class Arrow(NamedTuple):
    """An edge as a path, with its width."""

    path: str
    width: float
    is_need: bool
    label: str


class Picture(NamedTuple):
    """Everything in the coordinates of the SVG."""

    width: float
    height: float
    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]
    left_out: int
    """How many tools of weaker edges have no place."""


def picture(edges: Sequence[Edge]) -> Picture:
    """Returns the picture of edges, the strongest of which come first."""
    every = dict.fromkeys(tool for edge in edges for tool in (edge.source, edge.target))
    shown = sorted(list(every)[:MAX_NODES])
    places = {tool: 2 * math.pi * at / len(shown) for at, tool in enumerate(shown)}
    heaviest = max((edge.weight for edge in edges), default=0.0) or 1.0
    drawn = [edge for edge in edges if edge.source in places and edge.target in places]
    return Picture(
        _WIDTH,
        _HEIGHT,
        tuple(_node(tool, angle) for tool, angle in places.items()),
        tuple(_arrow(edge, places, heaviest) for edge in drawn),
        len(every) - len(shown),
    )


def _node(tool: str, angle: float) -> Node:
    x, y = _at(angle, _RADIUS)
    text_x, text_y = _at(angle, _RADIUS + 14)
    side = math.sin(angle)
    anchor = "middle" if abs(side) < 0.2 else "start" if side > 0 else "end"  # noqa: PLR2004 - near the top
    name = tool.partition("__")[2] or tool
    cut = name if len(name) <= _NAME_CHARS else f"{name[: _NAME_CHARS - 1]}…"
    return Node(tool, cut, x, y, text_x, round(text_y + 4, 1), anchor)


def _arrow(edge: Edge, places: dict[str, float], heaviest: float) -> Arrow:
    start, end = places[edge.source], places[edge.target]
    (x1, y1), (x2, y2) = _at(start, _RADIUS - 6), _at(end, _RADIUS - 9)
    cx, cy = _at((start + end) / 2, _RADIUS * _PULL)
    if abs(start - end) > math.pi:
        cx, cy = _at((start + end) / 2 + math.pi, _RADIUS * _PULL)
    width = 0.8 + 3.2 * math.sqrt(max(0.0, edge.weight) / heaviest)
    label = f"{edge.source} → {edge.target}, {edge.times} times"
    is_need = "dependency" in edge.kinds
    return Arrow(f"M{x1},{y1}Q{cx},{cy} {x2},{y2}", round(width, 1), is_need, label)


def _at(angle: float, radius: float) -> tuple[float, float]:
    x = _WIDTH / 2 + radius * math.cos(angle - math.pi / 2)
    y = _HEIGHT / 2 + radius * math.sin(angle - math.pi / 2)
    return round(x, 1), round(y, 1)
