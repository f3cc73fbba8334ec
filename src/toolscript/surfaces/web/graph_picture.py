"""Lays out the graph as an arc diagram: tools in one column, by server, an arc an edge."""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from toolscript.graph.base import Edge

MAX_NODES = 40
_ROW = 22.0
_LINE_X = 192.0
"""Where the dots stand: names are on their left, arcs on their right."""
_WIDTH = 352.0
_NAME_CHARS = 26


class Label(NamedTuple):
    """The name of a server above its tools."""

    name: str
    y: float


class Node(NamedTuple):
    """A tool: a dot with its name."""

    id: str
    name: str
    y: float


class Arrow(NamedTuple):
    """An edge as a path, with the width of its line."""

    path: str
    width: float
    is_need: bool
    label: str


class Picture(NamedTuple):
    """Everything in the coordinates of the SVG."""

    width: float
    height: float
    x: float
    """Where the dots stand."""
    labels: tuple[Label, ...]
    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]
    left_out: int
    """How many tools of weaker edges have no place."""


def picture(edges: Sequence[Edge]) -> Picture:
    """Returns the picture of edges, the strongest of which come first."""
    every = dict.fromkeys(tool for edge in edges for tool in (edge.source, edge.target))
    labels: list[Label] = []
    nodes: list[Node] = []
    y = 0.0
    for server, tools in groupby(sorted(list(every)[:MAX_NODES]), key=_server):
        y += _ROW
        labels.append(Label(_cut(server), y))
        for tool in tools:
            y += _ROW
            nodes.append(Node(tool, _cut(tool.partition("__")[2] or tool), y))
    places = {node.id: node.y for node in nodes}
    heaviest = max((edge.weight for edge in edges), default=0.0) or 1.0
    drawn = [edge for edge in edges if edge.source in places and edge.target in places]
    arrows = tuple(_arrow(edge, places, heaviest) for edge in drawn)
    left_out = len(every) - len(nodes)
    return Picture(_WIDTH, y + _ROW, _LINE_X, tuple(labels), tuple(nodes), arrows, left_out)


def _server(tool: str) -> str:
    return tool.partition("__")[0]


def _cut(name: str) -> str:
    return name if len(name) <= _NAME_CHARS else f"{name[: _NAME_CHARS - 1]}…"


def _arrow(edge: Edge, places: dict[str, float], heaviest: float) -> Arrow:
    start, end = places[edge.source], places[edge.target]
    height = abs(end - start) / 2
    # Half an ellipse to the right; a long one is flatter, so that it stays in the picture.
    reach = min(_WIDTH - _LINE_X - 14, 10 + 1.1 * height)
    x, sweep = _LINE_X + 6, int(end > start)
    path = f"M{x},{start}A{reach:.1f},{height:.1f} 0 0 {sweep} {x},{end}"
    width = 1 + 2 * math.sqrt(max(0.0, edge.weight) / heaviest)
    label = f"{edge.source} → {edge.target}, {edge.times} times"
    return Arrow(path, round(width, 1), "dependency" in edge.kinds, label)
