"""Tools of the same name: twins say so, and the one used, or accepted longer, comes first."""

import pytest

from toolscript.embedding.loader import LazyModel
from toolscript.graph.usage import Usage
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.namesakes import NEAR_TIE
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import SAME_AGE_S, Document, Grant, Hit, SearchRequest, tool_id

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


HELPER = "Opens a new issue in a repository, with a title, a text and labels."
SERVERS = ("aaa", "github", "work")


class Place:
    """The same tool on three servers, the first of which was accepted first."""

    def __init__(self, model: LazyModel) -> None:
        self.usage = Usage()
        self.semantic = SemanticSignal(model, lambda: None, usage=self.usage)
        times = {f"{server}__open_issue": OLD + 9_999 * n for n, server in enumerate(SERVERS)}
        profile = search_profile(0.7, 2, 0.0)
        self.engine = SearchEngine(
            profile, semantic=self.semantic, accepted_at=lambda tool: times.get(tool, 0)
        )
        texts = {f"{server}__open_issue": HELPER for server in SERVERS}
        texts["linear__open_issue"] = "Opens the page about a topic in the magazine's archive."
        self.engine.update(
            Document(id=name, server=name.split("__")[0], name="open_issue", description=text)
            for name, text in texts.items()
        )

    def find(self, text: str, holder: str = "me") -> list[Hit]:
        grant = Grant(servers=("*",), holder=holder)
        return list(self.engine.search(SearchRequest(text=text, grant=grant)).hits)

    def use(self, server: str, question: str, holder: str = "me") -> None:
        embedded = self.semantic.embed_query(question)
        assert embedded
        grant = Grant(servers=("*",), holder=holder)
        self.usage.learn(f"{server}__open_issue", *embedded, grant)


@pytest.fixture
def place(model: LazyModel) -> Place:
    return Place(model)


def test_twins_say_so_and_others_of_the_name_do_not(place: Place) -> None:
    [best, *_] = place.find("open an issue about the broken login")
    assert {best.document.server, *best.twins} == set(SERVERS)
    bounded = SearchRequest(text="there is a bug", grant=Grant(servers=("work", "linear")))
    hits = place.engine.search(bounded).hits
    assert [hit.twins for hit in hits] == [(), ()], "its twins cannot be seen"


def test_of_twins_the_one_that_the_caller_has_used_comes_first(place: Place) -> None:
    asked = "open an issue about the broken login"
    [first, second] = place.find(asked)
    place.use("work", "the build fails, tell them")
    assert {first.document.server, second.document.server} == {"aaa", "github"}
    assert [hit.document.server for hit in place.find(asked)] == ["work", "aaa"]
    of_another = place.find(asked, "another")
    assert [hit.document for hit in of_another] == [first.document, second.document]
    assert place.find("aaa__open_issue")[0].document.server == "aaa", "unless it is named"
