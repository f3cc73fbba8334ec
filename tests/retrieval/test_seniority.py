"""Tools of the same name that nearly tie: the one that was accepted longer comes first."""

import pytest

from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.seniority import NEAR_TIE
from toolscript.types import SAME_AGE_S, Document, SearchRequest, tool_id

WRITE = "Write a note with a title and a text into the notebook. An existing one stays for ever."
SHORTER = "Write a note with a title and a text into the notebook. An existing one stays."
OLD = 1_700_000_000
NEW = OLD + SAME_AGE_S + 1


def documents(**texts: str) -> list[Document]:
    """A tool called ``write_note`` of each server, and another tool."""
    made = [
        Document(id=tool_id(server, "write_note"), server=server, name="write_note", description=d)
        for server, d in texts.items()
    ]
    return [*made, Document(id="m__read", server="m", name="read", description="Read a text.")]


def found(query: str, texts: dict[str, str], limit: int = 10, **times: int) -> list[str]:
    """The servers of the hits; those of no time have been accepted at an unknown one."""

    def accepted_at(identifier: str) -> int:
        return times.get(identifier.partition("__")[0], 0)

    engine = SearchEngine(search_profile(0.7, limit, 0.0), accepted_at=accepted_at)
    engine.update(documents(**texts))
    request = SearchRequest(text=query, why="memos__write_note")
    result = engine.search(request)
    hits = [hit.document.server for hit in result.hits if hit.document.name == "write_note"]
    assert result.why is not None
    if "memos" in hits:
        ids = [hit.document.id for hit in result.hits]
        assert result.why.rank == ids.index("memos__write_note") + 1
    return hits


QUESTION = "write the text of a note into my notebook"
TIED = {"aaa": WRITE, "memos": WRITE}
NEARLY = {"aaa": SHORTER, "memos": WRITE}
WORSE = {"aaa": SHORTER, "memos": "Notes of all kinds are kept for as long as there is room."}
CASES: dict[str, tuple[str, dict[str, str], dict[str, int], str]] = {
    "a tie": (QUESTION, TIED, {"aaa": NEW, "memos": OLD}, "memos"),
    "a tie of names": ("write_note", TIED, {"aaa": NEW, "memos": OLD}, "memos"),
    "a near tie": (QUESTION, NEARLY, {"aaa": NEW, "memos": OLD}, "memos"),
    "a near tie with one that was never accepted": (QUESTION, NEARLY, {"memos": OLD}, "memos"),
    "a near tie the other way": (QUESTION, NEARLY, {"aaa": OLD, "memos": NEW}, "aaa"),
    "no time": (QUESTION, TIED, {}, "aaa"),
    "one first start": (QUESTION, TIED, {"aaa": OLD + SAME_AGE_S, "memos": OLD}, "aaa"),
    "a better one": (QUESTION, WORSE, {"aaa": NEW, "memos": OLD}, "aaa"),
    "an exact id of the newer": ("aaa__write_note", TIED, {"aaa": NEW, "memos": OLD}, "aaa"),
    "an exact id of the older": ("memos__write_note", TIED, {"aaa": OLD, "memos": NEW}, "memos"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_older_of_near_ties_comes_first(case: str) -> None:
    query, texts, times, first = CASES[case]
    assert found(query, texts, **times)[0] == first
    assert found(query, texts, limit=1, **times) == [first], "also where only one is shown"


def test_the_cases_are_as_near_as_they_are_called() -> None:
    engine = SearchEngine(search_profile(0.7, 10, 0.0))

    def gap(texts: dict[str, str]) -> float:
        engine.update(documents(**texts))
        hits = engine.search(SearchRequest(text=QUESTION)).hits
        scores = {hit.document.server: hit.score for hit in hits}
        return scores["aaa"] - scores["memos"]

    assert gap(TIED) == 0 < gap(NEARLY) <= NEAR_TIE < gap(WORSE)


def test_only_tools_of_the_name_change_places() -> None:
    """And among several copies only those that are nearly as good are passed."""
    texts = {"aaa": SHORTER, "bbb": WRITE, "ccc": SHORTER, "memos": WRITE, "zzz": WORSE["memos"]}
    before = found(QUESTION, texts)
    after = found(QUESTION, texts, aaa=NEW, bbb=NEW, ccc=NEW, memos=OLD, zzz=OLD - SAME_AGE_S - 1)
    assert before == ["aaa", "ccc", "bbb", "memos", "zzz"]
    assert after == ["memos", "aaa", "ccc", "bbb", "zzz"]
