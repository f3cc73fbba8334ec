"""What a caller may see of a corpus, and that what it may not see moves no score."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscript.retrieval.base import Corpus
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.visibility import Visibility
from toolscript.types import EVERYTHING, Document, Grant, SearchRequest, tool_id

NAMES = ("git", "git_lab", "mail", "a-b", "[x]", "*")
TOOLS = ("log", "push", "git__log", "read[1]", "x?")
PATTERNS = (
    "git",
    "git*",
    "*",
    "?ail",
    "[x]",
    "git__log",
    "git__*",
    "*__log",
    "g*log",
    "mail__p?sh",
)
DOCUMENTS: list[Document] = [
    Document(id=tool_id(server, tool), server=server, name=tool)
    for server in NAMES
    for tool in TOOLS
]


def request(grant: Grant = EVERYTHING, **more: object) -> SearchRequest:
    return SearchRequest(text="x", grant=grant, **more)  # pyright: ignore[reportArgumentType] - any field


@pytest.mark.requirement("search:filter")
@given(
    servers=st.lists(st.sampled_from(PATTERNS), max_size=3),
    tools=st.lists(st.sampled_from(PATTERNS), max_size=3),
    within=st.lists(st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2), max_size=2),
    hidden=st.sets(st.sampled_from([each.id for each in DOCUMENTS]), max_size=3),
    asked=st.lists(st.sampled_from(NAMES), max_size=2),
)
def test_rows_are_those_that_the_grant_allows_one_by_one(
    servers: list[str],
    tools: list[str],
    within: list[list[str]],
    hidden: set[str],
    asked: list[str],
) -> None:
    corpus = Corpus(DOCUMENTS)
    selections = tuple(Grant(servers=tuple(each), tools=tuple(each)) for each in within)
    grant = Grant(servers=tuple(servers), tools=tuple(tools), within=selections)
    wanted = request(grant, hidden=frozenset(hidden), servers=tuple(asked))
    visibility = Visibility(corpus)
    for _ in range(2):  # the second time it is remembered
        rows: list[int] = visibility.reachable(wanted).tolist()
        assert [corpus.documents[row].id for row in rows] == [
            each.id
            for each in corpus.documents
            if wanted.shows(each.id) and (not asked or each.server in asked)
        ]


@pytest.mark.requirement("search:filter")
def test_passages_are_seen_with_their_parent() -> None:
    corpus = Corpus(
        Document(
            id=f"skills__{name}{part}", server="skills", name=name, parent_id=f"skills__{name}"
        )
        for name in ("bread", "car")
        for part in ("", "#0")
    )
    visibility = Visibility(corpus)
    seen: list[int] = visibility.reachable(request(Grant(tools=("skills__bread",)))).tolist()
    assert [corpus.documents[row].id for row in seen] == ["skills__bread", "skills__bread#0"]
    hidden = request(hidden=frozenset({"skills__bread"}))
    assert visibility.reachable(hidden).tolist() == [2, 3]


def test_what_a_grant_allows_is_found_once() -> None:
    visibility = Visibility(Corpus(DOCUMENTS))
    masks = [visibility.mask(request(Grant(servers=("g*",)))) for _ in range(3)]
    assert masks[0] is not None
    assert all(mask is masks[0] for mask in masks)
    assert masks[0].sum() == 2 * len(TOOLS)
    assert visibility.mask(request()) is None


# What is hidden

_WORDS = ("send", "mail", "commit", "branch", "weather", "tomorrow", "invoice", "read", "file")
_SENTENCES = st.lists(st.sampled_from(_WORDS), min_size=1, max_size=6).map(" ".join)


def _documents(server: str, texts: Sequence[str]) -> list[Document]:
    return [
        Document(
            id=tool_id(server, f"tool {number}"),
            server=server,
            name=f"{server} tool {number}",
            description=f"Do {text}",
            digest=text,
        )
        for number, text in enumerate(texts)
    ]


@pytest.mark.requirement("search:filter")
@given(
    shown=st.lists(_SENTENCES, min_size=1, max_size=4),
    hidden=st.lists(st.sampled_from(_WORDS), unique=True, max_size=len(_WORDS)),
    places=st.lists(st.integers(0, 3), min_size=len(_WORDS), max_size=len(_WORDS)),
    others=st.lists(st.integers(0, 3), min_size=len(_WORDS), max_size=len(_WORDS)),
    question=st.lists(_SENTENCES, min_size=1, max_size=3).map(" and ".join),
)
def test_how_well_hidden_tools_match_moves_no_score(
    shown: list[str], hidden: list[str], places: list[int], others: list[int], question: str
) -> None:
    """search:filter: the words' statistics are the catalogue's, and here they stay the same."""
    grant = Grant(servers=("shown",))

    def search(where: list[int]) -> list[tuple[str, float, str]]:
        texts = [
            " ".join(word for word, place in zip(hidden, where, strict=False) if place == number)
            for number in range(4)
        ]
        engine = SearchEngine(search_profile(0.7, 10, 0.0))
        engine.update([*_documents("shown", shown), *_documents("hidden", texts)])
        result = engine.search(SearchRequest(text=question, grant=grant))
        return [(hit.document.id, hit.score, hit.reason) for hit in result.hits]

    assert search(places) == search(others)


@pytest.mark.requirement("search:filter")
def test_a_hidden_tool_of_the_name_that_is_asked_for_hides_no_other() -> None:
    engine = SearchEngine(search_profile(0.7, 10, 0.0))
    engine.update(
        [
            Document(id="a__raed_file", server="a", name="raed_file"),
            Document(id="b__read_file", server="b", name="read_file"),
        ]
    )
    asked = SearchRequest(text="raedfile", grant=Grant(servers=("b",)))
    [found] = engine.search(asked).hits
    assert found.document.id == "b__read_file"
    assert found.score == 0.875
