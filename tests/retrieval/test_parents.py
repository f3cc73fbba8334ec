"""Wholes and their passages: of each whole there is one hit, and its best passage is shown."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import MakeEngine
from toolscript.embedding.loader import LazyModel
from toolscript.retrieval.base import Corpus, Query
from toolscript.retrieval.engine import SearchEngine, best_per_parent
from toolscript.retrieval.profiles import skills_profile
from toolscript.retrieval.semantic.calibration import CURVES
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import Document, Grant, SearchRequest

TEXTS = {
    "bread": ["Feed the sourdough in the evening.", "Bake the loaf in a closed pot."],
    "cat": ["Feed the cat twice a day.", "Brush its fur on Sundays.", "Bake it a fish pie."],
    "car": ["Change the oil of the engine."],
}


def document(identifier: str, whole: str, text: str, name: str) -> Document:
    return Document(
        id=identifier,
        parent_id=whole,
        server="skills",
        name=name,
        description=text,
        digest=identifier,
    )


def documents() -> list[Document]:
    found: list[Document] = []
    for name, texts in TEXTS.items():
        whole = f"skills__{name}"
        found.append(document(whole, whole, " ".join(texts), name))
        found += [document(f"{whole}#{n}", whole, text, name) for n, text in enumerate(texts)]
    return found


@pytest.fixture(scope="module")
def engine(make_engine: MakeEngine) -> SearchEngine:
    return make_engine(documents())


def found(engine: SearchEngine, text: str, **more: object) -> list[str]:
    request = SearchRequest(text=text, threshold=0.0, **more)  # pyright: ignore[reportArgumentType]
    return [hit.document.id for hit in engine.search(request).hits]


@pytest.mark.requirement("skills:folders")
def test_the_best_passage_stands_for_the_whole(engine: SearchEngine) -> None:
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
    made = [
        document("a", "a", "Water the lawn. Sharpen the scythe.", "x"),
        document("a#0", "a", "Water the lawn.", "x"),
        document("a#1", "a", "Sharpen the scythe.", "x"),
        document("a#0b", "a#0b", "Sharpen the knife.", "x"),
        document("a#0b#0", "a#0b", "Sharpen the knife.", "x"),
    ]
    assert found(make_engine(made), "sharpen something") == ["a#0b#0", "a#1"]


def test_without_a_model_the_passage_with_most_of_the_words_is_shown() -> None:
    """skills:folders: of a whole in which all of them stand."""
    engine = SearchEngine(skills_profile(0.7, 3, 0.0))
    engine.update(documents())
    assert found(engine, "brushing fur, baking pie")[0] == "skills__cat#1"
    assert found(engine, "feed fish pie")[0] == "skills__cat#2"


def test_the_words_are_those_of_the_whole() -> None:
    """skills:folders: one that has them in two passages is before one that has but some."""
    engine = SearchEngine(skills_profile(0.7, 3, 0.0))
    texts = {"a": ["Water the lawn.", "Sharpen the scythe."], "b": ["Water the cat.", "Sleep."]}
    engine.update(
        made
        for whole, said in texts.items()
        for made in (
            document(whole, whole, " ".join(said), "x"),
            *(document(f"{whole}#{n}", whole, text, "x") for n, text in enumerate(said)),
        )
    )
    hits = engine.search(SearchRequest(text="water and sharpen")).hits
    assert [hit.document.parent_id for hit in hits] == ["a", "b"]
    assert hits[0].score > hits[1].score


def test_half_of_a_passages_nearness_is_its_wholes(model: LazyModel) -> None:
    """skills:folders: by the vectors, and both are calibrated after that."""
    signal, corpus = SemanticSignal(model, lambda: None), Corpus(documents())
    assert list(signal.prepare(corpus))
    index, query = signal.index(corpus), Query("how is the loaf baked")
    assert index.vectors is not None
    encoder = model.get().encoder
    assert encoder is not None
    cosines = index.vectors @ encoder.query(query.text)
    rows = corpus.rows
    near = (cosines[rows["skills__bread#1"]] + cosines[rows["skills__bread"]]) / 2
    curve = CURVES[encoder.model]
    scores = index.rank(query).scores
    assert scores[rows["skills__bread#1"]] == pytest.approx(float(curve(np.array([near]))[0]))
    own = cosines[rows["skills__bread"]]
    assert scores[rows["skills__bread"]] == pytest.approx(float(curve(np.array([own]))[0]))


def test_a_name_is_the_whole_and_its_first_passage_is_shown(engine: SearchEngine) -> None:
    """skills:folders: every passage has the name, and they tie."""
    [first, *_] = engine.search(SearchRequest(text="cat")).hits
    assert (first.document.id, first.score) == ("skills__cat#0", 1.0)


def test_a_grant_is_of_the_whole(engine: SearchEngine) -> None:
    grant = Grant(tools=("skills__cat",))
    assert found(engine, "bake something", grant=grant) == ["skills__cat#2"]
    assert found(engine, "bake something", grant=Grant(servers=("git",))) == []


def test_a_text_about_commands_runs_none(make_engine: MakeEngine) -> None:
    """skills:folders: where git is wanted and nothing is there for it, no shell is inferred."""
    text, whole = "Run a command line in a terminal.", "skills__terminal"
    engine = make_engine(
        [document(each, whole, text, "run command") for each in (whole, f"{whole}#0")]
    )
    result = engine.search(SearchRequest(text="commit my changes to git", threshold=0.0))
    assert all("Capability inference" not in hit.reason for hit in result.hits)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.booleans()), max_size=30))
def test_of_each_whole_the_first_of_the_best_leads(documents: list[tuple[int, int, bool]]) -> None:
    """skills:folders: among the rows that were asked for, in whatever order wholes come."""
    rows = [row for row, (_, _, asked) in enumerate(documents) if asked]
    wholes = [whole for whole, _, _ in documents]
    parents = np.array([wholes.index(whole) for whole in wholes], dtype=np.intp)
    scores = np.array([score for _, score, _ in documents], dtype=np.float32)
    found = best_per_parent(np.array(rows, dtype=np.intp), parents, scores)
    best = {
        whole: min(
            (row for row in rows if documents[row][0] == whole),
            key=lambda row: (-documents[row][1], row),
        )
        for whole in {documents[row][0] for row in rows}
    }
    assert found.tolist() == sorted(best.values())
