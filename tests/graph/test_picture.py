from xml.etree import ElementTree as ET

from tests.graph.test_toolgraph import graph_of
from toolscript.graph.base import Edge
from toolscript.graph.svg_picture import dot, svg

ODD = 's__<script>"&\\\n\x1b'
SVG = "{http://www.w3.org/2000/svg}"


def edges() -> list[Edge]:
    graph = graph_of("abc", "ab")
    graph.add_dependencies([("s__c", ODD)])
    return graph.strongest(10)


def test_an_svg_has_every_tool_and_edge_and_nothing_of_theirs_is_markup() -> None:
    """graph:learning"""
    root = ET.fromstring(svg(edges()))  # noqa: S314 - our own
    labels = [node.text or "" for node in root.iter(f"{SVG}text")]
    assert len(labels) == 4
    assert any("<script>" in label for label in labels)
    titles = [node.text or "" for node in root.iter(f"{SVG}title")]
    assert "s__a → s__b: observed, 2" in titles
    assert sum("→" in title for title in titles) == 4
    assert not list(root.iter(f"{SVG}script"))


def test_dot_has_every_edge_and_quotes_names() -> None:
    """graph:learning"""
    drawn = dot(edges())
    assert '  "s__a" -> "s__b" [label="2", penwidth=4.00, style=solid];' in drawn.splitlines()
    assert r'"s__c" -> "s__<script>\"&\\ " [label="needs"' in drawn
    assert drawn.startswith("digraph")


def test_nothing_is_drawn_as_nothing() -> None:
    assert ET.fromstring(svg([])).tag == f"{SVG}svg"  # noqa: S314 - our own
    assert dot([]).count("->") == 0
