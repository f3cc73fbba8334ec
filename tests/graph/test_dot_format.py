import pytest

from tests.graph.test_tool_graph import graph_of
from toolscript.graph.dot_format import to_dot

ODD = 's__<script>"&\\\n\x1b'


@pytest.mark.requirement("graph:learning")
def test_dot_has_every_edge_and_quotes_names() -> None:
    """graph:learning"""
    graph = graph_of("abc", "ab")
    graph.add_dependencies([("s__c", ODD)])
    lines = to_dot(graph.strongest(10)).splitlines()
    assert lines[0].startswith("digraph")
    assert '  "s__a" -> "s__b" [label="2", penwidth=4.00, style=solid];' in lines
    assert any(r'"s__c" -> "s__<script>\"&\\ " [label="needs"' in line for line in lines)
    assert sum(" -> " in line for line in lines) == 4


def test_nothing_is_drawn_as_nothing() -> None:
    assert to_dot([]).count("->") == 0
