"""Deprecated tools rank below those that their descriptions name."""

import pytest

from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.profiles import search_profile
from toolscript.types import Document, Grant, SearchRequest

OLD = "Read a file. DEPRECATED: Use read_text_file instead."
NEW = "Get the complete contents of a file from the file system as text."
TOOLS = {
    "fs__read_file": OLD,
    "fs__read_text_file": NEW,
    "other__read_file": "Read a file. Deprecated: use fs__read_text_file or gone instead.",
    "fs__write_file": "Write a file; unlike append_file, it begins anew.",
}


def scores(query: str, grant: Grant | None = None) -> dict[str, float]:
    engine = SearchEngine(search_profile(0.7, 10, 0.0))
    engine.update(
        Document(id=name, server=server, name=tool, description=text)
        for name, text in TOOLS.items()
        for server, _, tool in [name.partition("__")]
    )
    request = SearchRequest(text=query) if grant is None else SearchRequest(text=query, grant=grant)
    return {hit.document.id: hit.score for hit in engine.search(request).hits}


@pytest.mark.parametrize("query", ["read a file", "please read the file", "read files"])
def test_what_replaces_a_tool_comes_before_it(query: str) -> None:
    hits = scores(query)
    assert hits["fs__read_text_file"] > hits["fs__read_file"] > hits["fs__write_file"]


def test_an_exact_name_finds_the_deprecated_tool() -> None:
    assert next(iter(scores("fs__read_file"))) == "fs__read_file"
    assert scores("fs__read_file")["fs__read_file"] == 1


def test_without_a_successor_that_can_be_seen_nothing_changes() -> None:
    """Neither where it is of another server, which could push itself in, nor where it is hidden."""
    assert scores("read a file")["other__read_file"] >= scores("read a file")["fs__read_file"]
    bounded = Grant(tools=("fs__read_file", "other__*"))
    alone = scores("read a file", bounded)["fs__read_file"]
    assert alone == scores("read a file")["fs__read_text_file"]
