"""Passages of one whole: the best one is its hit, and the only one."""

import pytest

from tests.conftest import MakeEngine
from toolscript.retrieval.engine import SearchEngine
from toolscript.types import Document, Grant, SearchRequest

TEXTS = {
    "bread": ["Feed the sourdough in the evening.", "Bake the loaf in a closed pot."],
    "cat": ["Feed the cat twice a day.", "Brush its fur on Sundays.", "Bake it a fish pie."],
    "car": ["Change the oil of the engine."],
}


def passages() -> list[Document]:
    return [
        Document(
            id=f"skills__{name}#{number}",
            whole=f"skills__{name}",
            server="skills",
            name=name,
            description=text,
            digest=f"{name}{number}",
        )
        for name, texts in TEXTS.items()
        for number, text in enumerate(texts)
    ]


@pytest.fixture(scope="module")
def engine(make_engine: MakeEngine) -> SearchEngine:
    return make_engine(passages())


def found(engine: SearchEngine, text: str, **more: object) -> list[str]:
    request = SearchRequest(text=text, threshold=0.0, **more)  # pyright: ignore[reportArgumentType]
    return [hit.document.id for hit in engine.search(request).hits]


def test_the_best_passage_stands_for_the_whole(engine: SearchEngine) -> None:
    """skills:folders"""
    assert found(engine, "how is the loaf baked")[0] == "skills__bread#1"
    assert found(engine, "when is the sourdough fed")[0] == "skills__bread#0"
    assert found(engine, "brushing fur")[0] == "skills__cat#1"


def test_of_each_whole_there_is_one_hit(engine: SearchEngine) -> None:
    """skills:folders: so the limit counts wholes."""
    ids = found(engine, "bake something", limit=3)
    assert sorted(each.partition("#")[0] for each in ids) == [
        "skills__bread",
        "skills__car",
        "skills__cat",
    ]
    assert len(found(engine, "bake something", limit=2)) == 2


def test_ids_that_sort_into_each_other(make_engine: MakeEngine) -> None:
    """skills:folders: a file may be called as if it were a passage of another."""
    texts = {
        ("a", "a#0"): "Water the lawn.",
        ("a", "a#1"): "Sharpen the scythe.",
        ("a#0b", "a#0b#0"): "Sharpen the knife.",
    }
    documents = [
        Document(id=i, whole=w, server="skills", name="x", description=t, digest=i)
        for (w, i), t in texts.items()
    ]
    assert found(make_engine(documents), "sharpen something") == ["a#0b#0", "a#1"]


def test_a_name_is_the_whole_and_its_first_passage_is_shown(engine: SearchEngine) -> None:
    """skills:folders: every passage has the name, and they tie."""
    [first, *_] = engine.search(SearchRequest(text="cat")).hits
    assert (first.document.id, first.score) == ("skills__cat#0", 1.0)


def test_a_grant_is_of_the_whole(engine: SearchEngine) -> None:
    """skills:folders"""
    grant = Grant(tools=("skills__cat",))
    assert found(engine, "bake something", grant=grant) == ["skills__cat#2"]
    assert found(engine, "bake something", grant=Grant(servers=("git",))) == []


def test_a_text_about_commands_runs_none(make_engine: MakeEngine) -> None:
    """skills:folders: where git is wanted and nothing is there for it, no shell is inferred."""
    document = Document(
        id="skills__terminal#0",
        whole="skills__terminal",
        server="skills",
        name="run command",
        description="Run a command line in a terminal.",
        digest="1",
    )
    engine = make_engine([document])
    result = engine.search(SearchRequest(text="commit my changes to git", threshold=0.0))
    assert all("Capability inference" not in hit.reason for hit in result.hits)
