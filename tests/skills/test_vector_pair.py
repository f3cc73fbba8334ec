"""The seed's pair, with its own arguments, real files and the bundled model."""

import json
import multiprocessing
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from tests.skills.process import update_many
from toolscript.embedding.base import CachedVector, Encoder, Vectors
from toolscript.embedding.loader import LazyModel, Loaded, load_model
from toolscript.embedding.vector_cache import SqliteVectorCache
from toolscript.errors import ArgumentsError, ModelError, UnreachableError
from toolscript.skills.vector_pair import VectorPair
from toolscript.storage.blob_store import BlobStore
from toolscript.testing import WordEncoder

LIBRARY = Path(__file__).parent / "library"
MATH, STRINGS = "library/math_helpers.ns.txt", "library/string_utils.ns.txt"


@pytest.fixture
def sandbox(tmp_path: Path) -> Path:
    """A sandbox with the two files of the seed's example."""
    shutil.copytree(LIBRARY, tmp_path / "sandbox" / "library")
    return tmp_path / "sandbox"


@pytest.fixture
def index(sandbox: Path, model: LazyModel) -> VectorPair:
    return VectorPair(sandbox, model)


def kept(sandbox: Path, model: LazyModel) -> VectorPair:
    """An index whose files lie beside the sandbox, as another process would open it."""
    beside = sandbox.parent
    return VectorPair(
        sandbox,
        model,
        BlobStore(beside / "vector.sqlite"),
        lambda: SqliteVectorCache(beside / "cache" / "v.sqlite"),
    )


def found(index: VectorPair, query: str) -> dict[str, float]:
    answer: list[dict[str, Any]] = json.loads(index.SearchSkills(query))
    return {each["path"]: each["score"] for each in answer}


@pytest.mark.requirement("skills:update", "skills:search")
def test_the_seeds_examples(index: VectorPair) -> None:
    """skills:search, skills:update: prerequisite, example 1, 2 and 3 of the seed, as written."""
    assert index.VectorUpdate(MATH) == "OK"
    assert index.VectorUpdate(STRINGS) == "OK"
    search_results_json = index.SearchSkills("How do I add two numbers?")
    assert isinstance(search_results_json, str)
    assert search_results_json.startswith('[{"path":"library/math_helpers.ns.txt","score":0.')
    no_match_json = index.SearchSkills("Tell me about ancient history")
    assert no_match_json == "[]"
    results_list = json.loads(search_results_json)
    top_result = results_list[0]
    assert set(top_result) == {"path", "score"}
    assert top_result["path"] == MATH
    assert 0.5 <= top_result["score"] <= 1


@pytest.mark.requirement("skills:search")
def test_the_score_is_the_raw_cosine_of_the_best_passage(
    index: VectorPair, sandbox: Path, encoder: Encoder
) -> None:
    """skills:search: computed here from the texts, without the index."""
    first, second = "Bake the bread for an hour.", "Feed the cat twice a day."
    (sandbox / "two.md").write_text(f"# Bread\n\n{first}\n\n# Cat\n\n{second}", "utf-8")
    assert index.VectorUpdate("two.md") == "OK"
    question = encoder.query("how often does the cat eat")
    cosines = encoder.documents([f"Bread\n{first}", f"Cat\n{second}"]) @ question
    assert found(index, "how often does the cat eat") == {
        "two.md": pytest.approx(float(cosines.max()), abs=2e-6)
    }


@pytest.mark.requirement("skills:search")
def test_the_threshold_is_on_the_raw_cosine(index: VectorPair, sandbox: Path) -> None:
    """skills:search: everything at least at it, nothing below, by falling score."""
    for name in ("bread", "cake", "cat", "car"):
        (sandbox / f"{name}.md").write_text(f"How to take care of a {name}.", "utf-8")
        index.VectorUpdate(f"{name}.md")
    scores = found(index, "taking care of a cat")
    assert "cat.md" in scores
    assert all(score >= 0.5 for score in scores.values())
    assert list(scores.values()) == sorted(scores.values(), reverse=True)
    assert found(index, "quantum chromodynamics") == {}


def test_an_empty_index_finds_nothing(index: VectorPair) -> None:
    assert index.SearchSkills("anything") == "[]"


@pytest.mark.requirement("skills:update")
def test_an_update_replaces_what_was_known(index: VectorPair, sandbox: Path) -> None:
    """skills:update: also when the file became shorter, or empty."""
    index.VectorUpdate(MATH)
    (sandbox / MATH).write_text("How to water the roses in summer.", "utf-8")
    assert found(index, "How do I add two numbers?"), "not before it is updated"
    assert index.VectorUpdate(f"./library//{Path(MATH).name}") == "OK"
    assert found(index, "How do I add two numbers?") == {}
    assert list(found(index, "watering roses")) == [MATH]
    (sandbox / MATH).write_text("", "utf-8")
    assert index.VectorUpdate(MATH) == "OK"
    assert found(index, "watering roses") == {}


@pytest.mark.requirement("skills:update")
@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/etc/passwd", "VectorUpdate path error: '/etc/passwd' is absolute"),
        ("none.md", "VectorUpdate read error: 'none.md' does not exist"),
    ],
)
def test_a_failed_update_is_told_and_changes_nothing(
    index: VectorPair, path: str, told: str
) -> None:
    index.VectorUpdate(MATH)
    before = index.SearchSkills("How do I add two numbers?")
    assert index.VectorUpdate(path).startswith(told)
    assert index.SearchSkills("How do I add two numbers?") == before


@pytest.mark.requirement("skills:search")
@pytest.mark.parametrize("value", [None, 5, ["x"], b"x", "x" * 8193])
@pytest.mark.parametrize("name", ["VectorUpdate", "SearchSkills"])
def test_only_a_text_is_taken(index: VectorPair, name: str, value: Any) -> None:
    with pytest.raises(ArgumentsError, match=f"Vector.{name}: "):
        getattr(index, name)(value)


@pytest.mark.requirement("skills:search")
def test_a_failed_embedding_is_a_message(sandbox: Path, no_model: LazyModel) -> None:
    index = VectorPair(sandbox, no_model)
    assert index.SearchSkills("x") == (
        "SearchSkills embedding generation failed: searching without meaning: there is no model"
    )
    assert index.VectorUpdate(MATH).startswith("VectorUpdate embedding generation failed: ")


class FailingEncoder:
    """An encoder that has stopped to work."""

    name = model = "failing"
    dim = 3
    device = "cpu"

    def documents(self, texts: object) -> Any:
        del texts
        raise ModelError("out of memory")

    def query(self, text: str) -> Any:
        del text
        raise ModelError("out of memory")

    def query_with_parts(self, text: str, parts: object) -> Any:
        del text, parts
        raise ModelError("out of memory")

    def knows(self, word: str) -> bool:
        return bool(word)


@pytest.mark.requirement("skills:search")
def test_a_model_that_fails_later_is_a_message_too(sandbox: Path) -> None:
    index = VectorPair(sandbox, LazyModel(lambda: Loaded(FailingEncoder())))
    assert index.SearchSkills("x") == "SearchSkills embedding generation failed: out of memory"
    assert index.VectorUpdate(MATH) == "VectorUpdate embedding generation failed: out of memory"


# On the disk


@pytest.mark.requirement("skills:update")
def test_another_process_finds_what_was_updated(sandbox: Path, model: LazyModel) -> None:
    """skills:update: without embedding anything again; and sees what comes later."""
    writer, reader = kept(sandbox, model), kept(sandbox, model)
    assert reader.SearchSkills("How do I add two numbers?") == "[]"
    writer.VectorUpdate(MATH)
    assert list(found(reader, "How do I add two numbers?")) == [MATH]
    (sandbox / MATH).unlink()
    assert list(found(kept(sandbox, model), "How do I add two numbers?")) == [MATH]


@pytest.mark.requirement("skills:update")
@pytest.mark.parametrize("damage", ["truncated", "gone", "another model's"])
def test_lost_vectors_are_made_anew(sandbox: Path, model: LazyModel, damage: str) -> None:
    """skills:update: from the text that was updated, whatever the file says now."""
    kept(sandbox, model).VectorUpdate(MATH)
    (sandbox / MATH).unlink()
    cache = sandbox.parent / "cache"
    [path] = cache.glob("*.sqlite")
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:5000])
    elif damage == "gone":
        shutil.rmtree(cache)
    else:
        SqliteVectorCache(path).save("other", {"x#0": CachedVector("", np.ones(384, np.float32))})
    assert list(found(kept(sandbox, model), "How do I add two numbers?")) == [MATH]


@pytest.mark.requirement("skills:update")
def test_a_damaged_store_is_written_again(sandbox: Path, model: LazyModel) -> None:
    """skills:update: what was in it has to be updated again."""
    kept(sandbox, model).VectorUpdate(MATH)
    path = sandbox.parent / "vector.sqlite"
    path.write_bytes(path.read_bytes()[:5000])
    again = kept(sandbox, model)
    assert found(again, "How do I add two numbers?") == {}
    assert again.VectorUpdate(MATH) == "OK"
    assert list(found(kept(sandbox, model), "How do I add two numbers?")) == [MATH]


class HiccupEncoder(WordEncoder):
    """An encoder that fails once."""

    failed = False

    def documents(self, texts: Sequence[str]) -> Vectors:
        if not self.failed:
            self.failed = True
            raise UnreachableError("the server is restarting")
        return super().documents(texts)


@pytest.mark.requirement("skills:update")
def test_what_could_not_be_embedded_is_embedded_at_the_next_search(
    sandbox: Path, model: LazyModel
) -> None:
    """skills:update: though the store has not changed since."""
    kept(sandbox, model).VectorUpdate(MATH)
    encoder = HiccupEncoder()
    again = kept(sandbox, LazyModel(lambda: Loaded(encoder)))
    text = (sandbox / MATH).read_text("utf-8")
    assert again.SearchSkills(text).endswith(
        "embedding generation failed: the server is restarting"
    )
    assert list(found(again, text)) == [MATH]


@pytest.mark.requirement("skills:update")
def test_a_file_whose_name_begins_with_anothers_is_kept(sandbox: Path) -> None:
    """skills:update: names may have line feeds."""
    words = LazyModel(lambda: Loaded(WordEncoder()))
    for name, text in (("x\ny", "beta gamma"), ("x", "alpha")):
        (sandbox / name).write_text(text, "utf-8")
        assert kept(sandbox, words).VectorUpdate(name) == "OK"
    assert list(found(kept(sandbox, words), "beta gamma")) == ["x\ny"]


@pytest.mark.requirement("skills:update")
def test_processes_at_once_lose_nothing(sandbox: Path) -> None:
    for number in range(12):
        (sandbox / f"{number}.md").write_text(f"How to do thing number {number}.", "utf-8")
    context = multiprocessing.get_context("spawn")
    work = [[f"{n}.md" for n in range(first, 12, 3)] for first in range(3)]
    processes = [context.Process(target=update_many, args=(sandbox, names)) for names in work]
    for process in processes:
        process.start()
    for process in processes:
        process.join(100)
        assert process.exitcode == 0
    index = kept(sandbox, LazyModel(lambda: load_model("bundled", "bundled", 1)))
    assert len(found(index, "How to do thing number 7.")) == 12


class Angled(FailingEncoder):
    """An encoder to which a text that is a number is that cosine away from every question."""

    dim = 2

    def documents(self, texts: object) -> Any:
        cosines = np.array([float(text) for text in cast("list[str]", texts)])
        return np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1).astype(np.float32)

    def query(self, text: str) -> Any:
        del text
        return np.array([1.0, 0.0], dtype=np.float32)

    def query_with_parts(self, text: str, parts: object) -> Any:
        del parts
        return self.query(text)[None]


@pytest.mark.requirement("skills:search")
def test_a6_at_least_a_half_stays_and_the_nearest_comes_first(sandbox: Path) -> None:
    """skills:search: the seed's numbers, whatever ours are called."""
    index = VectorPair(sandbox, LazyModel(lambda: Loaded(Angled())))
    for name, cosine in (("a", 0.5), ("b", 0.75), ("c", 0.4995), ("d", 0.3), ("e", 1.0)):
        (sandbox / f"{name}.txt").write_text(str(cosine), "utf-8")
        assert index.VectorUpdate(f"{name}.txt") == "OK"
    assert index.SearchSkills("anything") == (
        '[{"path":"e.txt","score":1.0},{"path":"b.txt","score":0.75},{"path":"a.txt","score":0.5}]'
    )
