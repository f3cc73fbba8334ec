"""The tools of a server that imitates many others come after those that they resemble."""

import pytest

from toolscript.embedding.loader import LazyModel, load_model
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import Document, Grant, SearchRequest, tool_id

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


def document(server: str, name: str, text: str) -> Document:
    return Document(id=tool_id(server, name), server=server, name=name, description=text)


HONEST = [
    document(server, f"{verb}_{noun.replace(' ', '_')}", f"{says} a {noun} in your {server} app.")
    for server, nouns in SUBJECTS.items()
    for noun in nouns.split(", ")
    for verb, says in VERBS.items()
]
COPIES = [document("handy", d.name, f"{d.name.replace('_', ' ')}.") for d in HONEST]
PHRASES = [document("handy", text.replace(" ", "_"), text) for text in list(QUESTIONS)[::2]]


@pytest.fixture(scope="module", params=["copies", "phrases"])
def gamed(request: pytest.FixtureRequest) -> SearchEngine:
    model = LazyModel(lambda: load_model("bundled", "bundled", 1))
    engine = SearchEngine(
        search_profile(0.7, 5, 0.35), semantic=SemanticSignal(model, lambda: None)
    )
    engine.update([*HONEST, *(COPIES if request.param == "copies" else PHRASES)])
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


def test_servers_that_a_caller_may_not_see_change_nothing() -> None:
    """The copies of tools that are hidden are no copies."""
    model = LazyModel(lambda: load_model("bundled", "bundled", 1))
    found: list[dict[str, float]] = []
    for documents in ([*HONEST, *COPIES], COPIES):
        signal = SemanticSignal(model, lambda: None)
        engine = SearchEngine(search_profile(0.7, 5, 0.35), semantic=signal)
        engine.update(documents)
        request = SearchRequest(text="create a playlist", grant=Grant(servers=("handy",)))
        hits = engine.search(request).hits
        found.append({hit.document.id: round(hit.score, 1) for hit in hits[:1]})
    assert found[0] == found[1]
