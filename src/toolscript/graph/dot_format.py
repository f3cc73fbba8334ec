"""Writes a graph in DOT, the language of Graphviz, which makes pictures of it."""

import math
from collections.abc import Sequence

from toolscript.graph.base import Edge
from toolscript.graph.graph_data import server_of
from toolscript.text.display import printable


def to_dot(edges: Sequence[Edge]) -> str:
    """Returns a document with the tools, sorted by server, and an arrow for each edge."""
    tools = {tool for edge in edges for tool in (edge.source, edge.target)}
    heaviest = max((edge.weight for edge in edges), default=0.0) or 1.0
    return "\n".join(
        [
            "digraph tools {",
            "  rankdir=LR;",
            "  node [shape=box, fontname=sans];",
            *(f"  {_quoted(tool)};" for tool in sorted(tools, key=lambda t: (server_of(t), t))),
            *(_arrow(edge, heaviest) for edge in edges),
            "}\n",
        ]
    )


def _arrow(edge: Edge, heaviest: float) -> str:
    label = "needs" if edge.kinds == ("dependency",) else f"{edge.weight:g}"
    width = 0.8 + 3.2 * math.sqrt(max(0.0, edge.weight) / heaviest)
    style = "dashed" if "dependency" in edge.kinds else "solid"
    ends = f"{_quoted(edge.source)} -> {_quoted(edge.target)}"
    return f'  {ends} [label="{label}", penwidth={width:.2f}, style={style}];'


def _quoted(text: str) -> str:
    plain = printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'
