"""The graph as a picture: SVG to look at, DOT for other programs."""

import html
import math
from collections.abc import Sequence

from toolscript.graph.base import Edge
from toolscript.graph.graph_data import server_of
from toolscript.text import printable
from toolscript.types import SEPARATOR

_STROKES = {"observed": "#4c78a8", "template": "#72b7b2", "dependency": "#e45756"}
_LABEL = 32
_SIZE, _ROOM = 900, 190


def dot(edges: Sequence[Edge]) -> str:
    """A document in the language of Graphviz."""
    lines = ["digraph tools {", "  rankdir=LR;", "  node [shape=box, fontname=sans];"]
    lines += [f"  {_quoted(tool)};" for tool in _tools(edges)]
    for edge in edges:
        style = "dashed" if "dependency" in edge.kinds else "solid"
        width = f"{_width(edge, edges):.2f}"
        label = "needs" if edge.kinds == ("dependency",) else f"{edge.weight:g}"
        lines.append(
            f"  {_quoted(edge.source)} -> {_quoted(edge.target)} "
            f'[label="{label}", penwidth={width}, style={style}];'
        )
    return "\n".join([*lines, "}"]) + "\n"


def svg(edges: Sequence[Edge]) -> str:
    """A picture: the tools on a circle, by server, and what leads from one to another."""
    tools = _tools(edges)
    radius, middle = (_SIZE - 2 * _ROOM) / 2, _SIZE / 2
    angle = {tool: 2 * math.pi * at / max(1, len(tools)) for at, tool in enumerate(tools)}
    place = {
        tool: (middle + radius * math.cos(a), middle + radius * math.sin(a))
        for tool, a in angle.items()
    }
    head = f'viewBox="0 0 {_SIZE} {_SIZE}" font-family="sans-serif" font-size="12"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {head}>',
        "<title>Tools that are used together</title>",
        *(_marker(kind, stroke) for kind, stroke in _STROKES.items()),
        *(_line(edge, edges, place, middle) for edge in edges),
        *(_label(tool, angle[tool], place[tool]) for tool in tools),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _marker(kind: str, stroke: str) -> str:
    return (
        f'<marker id="{kind}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
        f'markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{stroke}"/></marker>'
    )


def _line(
    edge: Edge, edges: Sequence[Edge], place: dict[str, tuple[float, float]], middle: float
) -> str:
    (x1, y1), (x2, y2) = place[edge.source], place[edge.target]
    kind = "dependency" if "dependency" in edge.kinds else edge.kinds[0]
    dashes = ' stroke-dasharray="5 4"' if kind == "dependency" else ""
    told = f"{edge.source} → {edge.target}: {', '.join(edge.kinds)}, {edge.weight:g}"
    return (
        f'<path d="M{x1:.1f} {y1:.1f}Q{middle:.1f} {middle:.1f} {x2:.1f} {y2:.1f}" fill="none" '
        f'stroke="{_STROKES[kind]}" stroke-width="{_width(edge, edges):.2f}" '
        f'stroke-opacity="0.7" marker-end="url(#{kind})"{dashes}>'
        f"<title>{_escaped(told)}</title></path>"
    )


def _label(tool: str, angle: float, place: tuple[float, float]) -> str:
    degrees = math.degrees(angle)
    turned = 90 < degrees < 270  # noqa: PLR2004 - the left half, which would be upside down
    x, y = place
    anchor, shift = ("end", -8) if turned else ("start", 8)
    server, _, name = tool.partition(SEPARATOR)
    text = printable(f"{name} · {server}" if name else server, _LABEL)
    rotate = degrees + 180 if turned else degrees
    return (
        f'<g transform="translate({x:.1f} {y:.1f})"><circle r="3" fill="#333"/>'
        f'<text transform="rotate({rotate:.1f})" x="{shift}" dy="4" text-anchor="{anchor}">'
        f"{_escaped(text)}</text></g>"
    )


def _tools(edges: Sequence[Edge]) -> list[str]:
    """By server, then by name: what belongs together is side by side."""
    found = {tool for edge in edges for tool in (edge.source, edge.target)}
    return sorted(found, key=lambda tool: (server_of(tool), tool))


def _width(edge: Edge, edges: Sequence[Edge]) -> float:
    most = max(each.weight for each in edges) or 1.0
    return 0.8 + 3.2 * math.sqrt(max(0.0, edge.weight) / most)


def _quoted(text: str) -> str:
    plain = printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'


def _escaped(text: str) -> str:
    return html.escape(printable(text))
