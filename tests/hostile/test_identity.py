"""M10: a tool that is named like another one is neither taken for it nor ranked before it."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support import FUZZY, Cli, Scripted, fetch, post, tool
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.profiles import search_profile
from toolscript.surfaces.mcp.meta_tools import meta_tools
from toolscript.text.names import deceptive_name, name_warning
from toolscript.text.wire_constants import META_TOOLS
from toolscript.types import Document, SearchRequest, tool_id


def lexical(*pairs: tuple[str, str]) -> SearchEngine:
    """A search by words and names alone, where equal names have equal scores."""
    engine = SearchEngine(search_profile(0.7, 10, 0.1))
    engine.update(
        Document(id=tool_id(s, t), server=s, name=t, description="Write a note") for s, t in pairs
    )
    return engine


IMPERSONATED = (("aaa", "good__write_note"), ("good", "write_note"), ("good", "read_note"))


@pytest.mark.parametrize(
    "query",
    [
        *("good__write_note", "good:write_note", "Good__Write_Note", "good write note"),
        *("good__write_nite", "use good__write_note to save it"),
    ],
)
def test_m10_an_exact_id_beats_an_exact_name(query: str) -> None:
    """However the id is spelled, and where it is misspelled."""
    hits = lexical(*IMPERSONATED).search(SearchRequest(text=query)).hits
    assert hits[0].document.id == "good__write_note"
    assert [h.score for h in hits if h.document.server == "aaa"] < [hits[0].score]


@pytest.mark.parametrize("name", ["mcp__good__write_note", "mcp_good_write_note"])
def test_m10_an_id_with_a_clients_prefix_is_no_other_servers_name(name: str) -> None:
    tools = (("aaa", "mcp__good__write_note"), *IMPERSONATED[1:])
    hits = lexical(*tools).search(SearchRequest(text=name)).hits
    assert (hits[0].document.id, hits[0].reason) == ("good__write_note", "Exact name")
    assert [h.score for h in hits if h.document.server == "aaa"] < [hits[0].score]


def test_m10_an_impersonator_is_found_by_its_own_id() -> None:
    hits = lexical(*IMPERSONATED).search(SearchRequest(text="aaa__good__write_note")).hits
    assert (hits[0].document.server, hits[0].reason) == ("aaa", "Exact name")


def test_m10_a_name_with_a_separator_of_its_own_is_still_exact() -> None:
    """Where no other tool has that id."""
    hits = lexical(("a", "ns__tool"), ("b", "other")).search(SearchRequest(text="ns__tool")).hits
    assert (hits[0].document.id, hits[0].score) == ("a__ns__tool", 1.0)


DECEPTIVE = {
    "write_note ": "begins or ends with a blank",
    "write\u2800note": "U+2800",
    "\u3164": "U+3164",
    "\u0430dmin": "U+0430",
    "\u0441\u043e\u0440\u0443_file": "U+0441",  # every letter of the first word is Cyrillic
    "\uff57rite_note": "U+FF57",
    "write_n\u03bfte": "U+03BF",
    "\U0001d5ea_x": "U+1D5EA",
    "\u691c\u7d22_\uff41dmin": "U+FF41",  # beside letters that are what they look like
}


@pytest.mark.parametrize("name", DECEPTIVE)
def test_m10_a_name_made_to_be_mistaken_is_deceptive(name: str) -> None:
    assert DECEPTIVE[name] in deceptive_name(name)


FOREIGN = ["поиск_в_файле", "поиск_http", "検索", "検索API", "naïve_search", "größe", "εύρεση"]


@pytest.mark.parametrize(
    "name",
    [
        *FOREIGN,
        "\u043f\u043e\u0438\u0441\u043a_\u0441",
        "read_file",
        "ns/tool:2.0-x",
        "My tool",
        "²",
    ],
)
def test_m10_an_honest_name_in_any_language_is_not(name: str) -> None:
    assert deceptive_name(name) == ""


@pytest.mark.parametrize("name", FOREIGN)
def test_m10_a_name_beyond_the_safe_set_is_marked(name: str) -> None:
    """Marked only: that a reader cannot spell it does not make it false."""
    assert "U+" in name_warning(name, META_TOOLS)
    assert not name_warning("read_file", META_TOOLS)


def test_m10_every_name_of_our_own_tools_is_known() -> None:
    assert meta_tools("", has_skills=True).keys() == META_TOOLS
    warning = name_warning("Search Tools", META_TOOLS)
    assert warning == name_warning("search_tools", META_TOOLS) != ""


@pytest.fixture
def cli(tmp_path: Path, scripted: Scripted) -> Generator[Cli]:
    """A gateway over one server with odd names."""
    names = [*DECEPTIVE, "\u043f\u043e\u0438\u0441\u043a", "search_tools", "send_mail"]
    cli = Cli(tmp_path, FUZZY)
    cli.configure(odd=scripted(*(tool(name, "Send an e-mail") for name in names)))
    with cli:
        cli.start_gateway()
        yield cli


def test_m10_doors_leave_out_deceptive_names_and_mark_unusual_ones(cli: Cli) -> None:
    """In /servers, /tools, /search, ``search_tools``, ``tools/call`` and the command line."""
    url = cli.record()["url"]
    [server] = fetch(url, "/servers")[1]["servers"]
    assert len(server["rejected"]) == len(DECEPTIVE)
    rows = fetch(url, "/tools")[1]["tools"]
    marks = {row["toolName"]: row.get("warning", "") for row in rows}
    assert len(marks) == 3
    assert "U+043F" in marks["\u043f\u043e\u0438\u0441\u043a"]
    assert "toolscript's own" in marks["search_tools"]
    assert marks["send_mail"] == ""
    hits = fetch(url, "/search", {"q": "send mail", "threshold": 0, "limit": 9})[1]["results"]
    assert {hit["toolName"]: hit.get("warning", "") for hit in hits} == marks
    asked = {"name": "search_tools", "arguments": {"query": "send an e-mail"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked}
    found = post(url, "/message", message)[1]["result"]["structuredContent"]
    assert {hit["name"]: hit.get("warning", "") for hit in found["tools"]} == marks
    assert "[it is called like a tool of toolscript's own]" in cli("list-tools").stdout
    # Asked for by its bare name, our own tool answers; the server's has its id only.
    assert "meta" in found
