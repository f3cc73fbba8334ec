"""Copies: twins say so, the one used or accepted longer comes first, and imitators come last."""

import numpy as np
import pytest

from toolscript.embedding.base import Vectors, unit_rows
from toolscript.embedding.loader import LazyModel
from toolscript.graph.usage import Usage
from toolscript.retrieval.copies import MAX_IMITATORS, NEAR_TIE, SAME_AGE_S, find_imitations
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import Document, Grant, Hit, SearchRequest, tool_id

WRITE = "Write a note with a title and a text into the notebook. An existing one stays for ever."
SHORTER = "Write a note with a title and a text into the notebook. An existing one stays."
OLD = 1_700_000_000
NEW = OLD + SAME_AGE_S + 1


def document(server: str, name: str, text: str) -> Document:
    return Document(id=tool_id(server, name), server=server, name=name, description=text)


def namesakes(**texts: str) -> list[Document]:
    """A tool called ``write_note`` of each server, and another tool."""
    made = [document(server, "write_note", text) for server, text in texts.items()]
    return [*made, document("m", "read", "Read a text.")]


def found(query: str, texts: dict[str, str], limit: int = 10, **times: int) -> list[str]:
    """The servers of the hits; those of no time have been accepted at an unknown one."""

    def accepted_at(identifier: str) -> int:
        return times.get(identifier.partition("__")[0], 0)

    engine = SearchEngine(search_profile(0.7, limit, 0.0), accepted_at=accepted_at)
    engine.update(namesakes(**texts))
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
        engine.update(namesakes(**texts))
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
            document(name.partition("__")[0], "open_issue", text) for name, text in texts.items()
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


SUBJECTS = {
    "git": "commit, branch, tag",
    "mail": "message, draft, attachment",
    "calendar": "appointment, reminder, holiday",
    "weather": "forecast, storm warning, temperature",
    "music": "playlist, song, album",
    "bank": "payment, account balance, invoice",
    "maps": "route, restaurant nearby, address",
    "photos": "picture, photo album cover, face",
}
VERBS = {"create": "Creates", "list": "Lists", "delete": "Deletes", "share": "Shares"}
QUESTIONS = {
    f"{verb} {'an' if noun[0] in 'aeiou' else 'a'} {noun}": tool_id(
        server, f"{verb}_{noun.replace(' ', '_')}"
    )
    for server, nouns in SUBJECTS.items()
    for noun in nouns.split(", ")
    for verb in ("create", "share")
}


HONEST = [
    document(server, f"{verb}_{noun.replace(' ', '_')}", f"{says} a {noun} in your {server} app.")
    for server, nouns in SUBJECTS.items()
    for noun in nouns.split(", ")
    for verb, says in VERBS.items()
]
COPIES = [document("handy", d.name, f"{d.name.replace('_', ' ')}.") for d in HONEST]
PHRASES = [document("handy", text.replace(" ", "_"), text) for text in list(QUESTIONS)[::2]]


@pytest.fixture(scope="module", params=["copies", "phrases"])
def gamed(request: pytest.FixtureRequest, model: LazyModel) -> SearchEngine:
    return searching(model, [*HONEST, *(COPIES if request.param == "copies" else PHRASES)])


def searching(model: LazyModel, documents: list[Document]) -> SearchEngine:
    signal = SemanticSignal(model, lambda: None)
    engine = SearchEngine(search_profile(0.7, 5, 0.35), semantic=signal)
    engine.update(documents)
    return engine


def test_the_imitated_tools_come_first(gamed: SearchEngine) -> None:
    first = {text: gamed.search(SearchRequest(text=text)).hits[0].document.id for text in QUESTIONS}
    assert not [tool for tool in first.values() if tool.startswith("handy__")]
    right = sum(first[text] == tool for text, tool in QUESTIONS.items())
    assert right >= 0.9 * len(QUESTIONS)


def test_an_explanation_says_so(gamed: SearchEngine) -> None:
    hits = gamed.search(
        SearchRequest(text="create a playlist", explain=True, threshold=0, limit=50)
    )
    [imitation] = [
        h
        for h in hits.hits
        if h.document.id in {"handy__create_playlist", "handy__create_a_playlist"}
    ]
    assert imitation.explanation is not None
    assert "its server has tools like those of many others" in str(imitation.explanation)


def test_an_exact_name_finds_an_imitation(gamed: SearchEngine) -> None:
    hits = gamed.search(SearchRequest(text="handy__create_playlist")).hits
    hits += gamed.search(SearchRequest(text="handy__create_a_playlist")).hits
    assert ("handy", 1) in {(hit.document.server, hit.score) for hit in hits}


def test_who_may_see_the_imitator_alone_finds_its_tools(gamed: SearchEngine) -> None:
    request = SearchRequest(text="create a playlist", grant=Grant(servers=("handy",)))
    assert gamed.search(request).hits[0].document.name in {"create_playlist", "create_a_playlist"}


def test_servers_that_a_caller_may_not_see_change_nothing(model: LazyModel) -> None:
    """The copies of tools that are hidden are no copies."""
    request = SearchRequest(text="create a playlist", grant=Grant(servers=("handy",)))
    engines = (searching(model, documents) for documents in ([*HONEST, *COPIES], COPIES))
    hits = [engine.search(request).hits[0] for engine in engines]
    assert hits[0].document == hits[1].document
    assert round(hits[0].score, 1) == round(hits[1].score, 1)


DIM, TOOLS = 64, 10


def subjects(count: int, seed: int = 1) -> Vectors:
    return np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)


def tools(subject: Vectors, seed: int, count: int = TOOLS, spread: float = 1.0) -> Vectors:
    """The vectors of a server's tools, which have its subject in common."""
    own = np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)
    return unit_rows(2 * subject + spread * own)


def near(vectors: Vectors, seed: int = 99) -> Vectors:
    noise = np.random.default_rng(seed).normal(size=vectors.shape).astype(np.float32)
    return unit_rows(vectors + 0.02 * noise)


ORDINARY = {f"s{n}": tools(subject, n) for n, subject in enumerate(subjects(12))}
SAMPLE = np.concatenate([vectors[:2] for vectors in ORDINARY.values()])
"""Two tools of each server."""


def imitators(servers: dict[str, Vectors]) -> set[str]:
    names = [name for name, vectors in servers.items() for _ in vectors]
    mask = find_imitations(names, np.concatenate([*servers.values()]))
    return set() if mask is None else {name for name, row in zip(names, mask, strict=True) if row}


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({}, set[str]()),
        ({"copies": near(SAMPLE)}, {"copies"}),
        ({"all": near(np.concatenate([*ORDINARY.values()]))}, {"all"}),
        ({"twin": near(ORDINARY["s3"])}, set[str]()),
        ({"two": near(np.concatenate([ORDINARY["s3"], ORDINARY["s4"]]))}, set[str]()),
        ({"few": near(SAMPLE[:7])}, set[str]()),
        ({"mixed": np.concatenate([near(SAMPLE[:10]), tools(subjects(1, 7)[0], 50)])}, set[str]()),
        ({"various": unit_rows(subjects(20, 8))}, set[str]()),
    ],
    ids=["none", "copies", "all", "twin", "two subjects", "few", "half of its own", "various"],
)
def test_only_a_server_most_of_whose_tools_are_those_of_many_others_imitates(
    others: dict[str, Vectors], expected: set[str]
) -> None:
    assert imitators(ORDINARY | others) == expected


def test_every_tool_of_an_imitator_counts() -> None:
    servers = ORDINARY | {"copies": np.concatenate([near(SAMPLE), unit_rows(subjects(3, 9))])}
    names = [name for name, vectors in servers.items() for _ in vectors]
    mask = find_imitations(names, np.concatenate([*servers.values()]))
    assert mask is not None
    assert mask.sum() == len(SAMPLE) + 3


def test_if_many_servers_look_like_imitators_there_is_none() -> None:
    """Then servers are categories, or the catalogue is full of aggregators."""
    for count, expected in ((2, 2), (MAX_IMITATORS + 1, 0)):
        vectors = [tools(s, n + 60, 8) for n, s in enumerate(subjects(8 * count, 11))]
        originals = {f"o{n}": rows for n, rows in enumerate(vectors)}
        copies = {
            f"c{n}": near(np.concatenate([rows[:2] for rows in vectors[8 * n : 8 * n + 8]]))
            for n in range(count)
        }
        assert len(imitators(originals | copies)) == expected
