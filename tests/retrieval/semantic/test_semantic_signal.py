import json
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.encoders import Narrow
from toolscript.embedding.base import CachedVector, Encoder, unit_rows
from toolscript.embedding.download_progress import Progress
from toolscript.embedding.loader import (
    BUNDLED_FOLDER,
    Choice,
    LazyModel,
    Loaded,
    ModelIdentity,
    identify,
    lazy,
    load_choice,
    load_model,
)
from toolscript.embedding.vector_cache import SqliteVectorCache
from toolscript.retrieval.base import Corpus, Query
from toolscript.retrieval.semantic.calibration import CURVES
from toolscript.retrieval.semantic.document_text import document_vectors, embedding_inputs
from toolscript.retrieval.semantic.semantic_index import MAX_CACHED_QUERIES
from toolscript.retrieval.semantic.semantic_signal import BATCH_DOCUMENTS, SemanticSignal
from toolscript.retrieval.semantic.server_context import COMMON, SHARE
from toolscript.types import Document


def document(number: int, description: str = "Read a file.", server: str = "s") -> Document:
    name = f"tool_{number}"
    return Document(
        id=f"{server}__{name}",
        server=server,
        name=name,
        description=description,
        digest=f"{number} {description}",
    )


def prepared(signal: SemanticSignal, *documents: Document) -> Corpus:
    corpus = Corpus(documents)
    for _ in signal.prepare(corpus):
        pass
    return corpus


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "embeddings"


@pytest.fixture
def signal(model: LazyModel) -> SemanticSignal:
    """Without a cache."""
    return SemanticSignal(model, lambda: None)


def cached(model: LazyModel, directory: Path) -> SemanticSignal:
    """A signal as a new process would make it, over the same file."""
    return SemanticSignal(model, lambda: cache(directory))


def cache(directory: Path, name: str = "h") -> SqliteVectorCache:
    return SqliteVectorCache(directory / f"{name}.sqlite")


def stored(directory: Path) -> dict[str, str]:
    """Id → digest in the file."""
    identity = identify(Choice("bundled"))
    entries = cache(directory).load(identity.name if identity else "")
    return {identifier: entry.digest for identifier, entry in entries.items()}


# What is computed


@pytest.mark.requirement("model:prefix")
def test_what_is_embedded_is_everything_the_name_and_the_first_sentence() -> None:
    text = "Makes v1.2 of it. Then more."
    tool = Document(
        id="x",
        server="git",
        name="createBranch",
        title="New",
        description=text,
        parameters=(("sourceRef", "Where it begins."), ("force", "")),
    )
    assert embedding_inputs(tool) == {
        "everything": f"git create branch (New): {text} (source ref (Where it begins.), force)",
        "name": "git create branch (New)",
        "first sentence": "Makes v1.2 of it.",
    }
    plain = Document(id="x", server="git", name="log", title="log")
    assert set(embedding_inputs(plain).values()) == {"git log:", "git log"}
    endless = Document(id="x", server="s", name="n", description="word " * 1000)
    assert embedding_inputs(endless)["first sentence"] == ("word " * 60)
    assert len(embedding_inputs(endless)["everything"]) < 1100


def test_a_documents_vector_is_the_weighted_mean_of_its_texts_vectors(encoder: Encoder) -> None:
    tool = Document(id="x", server="git", name="log", description="Show it. With all of it.")
    texts = ["git log: Show it. With all of it.", "git log", "Show it."]
    rows = encoder.documents(texts).astype(float)
    mean = 0.8 * rows[0] + 0.05 * rows[1] + 0.15 * rows[2]
    [found] = document_vectors(encoder, [tool])
    np.testing.assert_allclose(found, mean / np.sqrt((mean**2).sum()), atol=1e-6)


@pytest.mark.requirement("search:calibrated")
def test_a_score_is_the_calibrated_cosine_with_the_question(
    signal: SemanticSignal, encoder: Encoder, documents: tuple[Document, ...]
) -> None:
    corpus = prepared(signal, *documents)
    found = signal.index(corpus).rank(Query("open a document")).scores
    rows = document_vectors(encoder, list(corpus.documents))
    question = encoder.query("open a document")
    servers = [document.server for document in corpus.documents]
    shared = COMMON * rows.mean(axis=0)
    scale = np.linalg.norm(rows - shared, axis=1).mean()
    rows = unit_rows(rows - shared)
    means = {name: rows[[each == name for each in servers]].mean(axis=0) for name in servers}
    moved = [row + SHARE * means[name] for row, name in zip(rows, servers, strict=True)]
    cosines = [
        float(shared @ question + scale * np.dot(row, question) / np.linalg.norm(row))
        for row in moved
    ]
    expected = CURVES[encoder.model](np.array(cosines, dtype=np.float32))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_right_tool_is_nearest_for_paraphrases(
    signal: SemanticSignal, documents: tuple[Document, ...]
) -> None:
    corpus = prepared(signal, *documents)
    index = signal.index(corpus)
    for question, expected in {
        "download a web page": "fetch__fetch",
        "switch to another branch": "git__git_checkout",
        "what does the clock say in Tokyo": "time__get_current_time",
        "rename a document": "filesystem__move_file",
    }.items():
        scores = index.rank(Query(question)).scores
        assert corpus.documents[int(scores.argmax())].id == expected, question


# How much is computed


@pytest.mark.requirement("cache:validity")
def test_only_what_changed_is_embedded_again(signal: SemanticSignal) -> None:
    prepared(signal, document(1), document(2), document(3))
    assert signal.counters.documents_embedded == 3
    prepared(signal, document(1), document(2, "changed"), document(3), document(4))
    assert signal.counters.documents_embedded == 5
    assert signal.embedded == 4
    prepared(signal, document(1))
    assert signal.counters.documents_embedded == 5
    assert signal.embedded == 1


@pytest.mark.requirement("model:lazy")
def test_documents_are_embedded_in_batches_and_can_be_found_in_between(
    signal: SemanticSignal,
) -> None:
    assert BATCH_DOCUMENTS == 64
    count = BATCH_DOCUMENTS + 10
    corpus = Corpus(document(n) for n in range(count))
    steps = signal.prepare(corpus)
    assert next(steps) == 10
    assert signal.counters.documents_embedded == BATCH_DOCUMENTS
    ranking = signal.index(corpus).rank(Query("read"))
    assert int(np.isnan(ranking.scores).sum()) == 10
    assert ranking.degraded == f"10 of {count} tools are not embedded yet"
    assert list(steps) == [0]
    assert not signal.index(corpus).rank(Query("read")).degraded


@pytest.mark.requirement("model:lazy")
def test_a_questions_vector_is_remembered(signal: SemanticSignal) -> None:
    index = signal.index(prepared(signal, document(1)))
    first = index.rank(Query("read a file")).scores
    second = index.rank(Query("read a file")).scores
    index.rank(Query("another"))
    assert first.tolist() == second.tolist()
    assert signal.counters.queries_embedded == 2
    assert signal.counters.queries_remembered == 1


def test_a_part_is_read_with_its_question_and_leaves_the_same_words_alone_as_they_were(
    signal: SemanticSignal,
) -> None:
    """search:intent, model:lazy: what was asked before decides nothing."""
    index = signal.index(prepared(signal, document(1), document(2)))
    alone = index.rank(Query("send a mail")).scores.tolist()
    whole = Query("open the file and send a mail", ("open the file", "send a mail"))
    queries = [whole, Query("open the file"), Query("send a mail")]
    part = index.rank_all(queries)[2].scores.tolist()
    assert signal.counters.queries_embedded == 2
    assert index.rank(Query("send a mail")).scores.tolist() == alone
    assert part != alone


@pytest.mark.requirement("model:lazy")
def test_the_memory_of_questions_is_bounded_and_keeps_the_latest(signal: SemanticSignal) -> None:
    index = signal.index(prepared(signal, document(1)))
    for number in range(MAX_CACHED_QUERIES):
        index.rank(Query(f"{number}"))
    index.rank(Query("0"))  # used again, so 1 is now the oldest
    index.rank(Query("one more"))
    assert signal.counters.queries_remembered == 1
    embedded = signal.counters.queries_embedded
    for text, known in (("0", True), ("one more", True), ("2", True), ("1", False)):
        before = signal.counters.queries_remembered
        index.rank(Query(text))
        assert (signal.counters.queries_remembered > before) is known, text
    assert signal.counters.queries_embedded == embedded + 1


@pytest.mark.requirement("model:lazy")
def test_nothing_is_loaded_before_there_is_something_to_embed() -> None:
    calls: list[int] = []

    def load() -> Loaded:
        calls.append(1)
        return Loaded(None, "there is none")

    signal = SemanticSignal(LazyModel(load), lambda: None)
    signal.index(prepared(signal))
    assert not calls
    prepared(signal, document(1))
    assert calls == [1]


# The cache


@pytest.mark.requirement("cache:incremental")
def test_a_second_process_computes_nothing_and_ranks_alike(
    model: LazyModel, directory: Path
) -> None:
    one, two = cached(model, directory), cached(model, directory)
    corpus = prepared(one, document(1), document(2, "Send mail."))
    prepared(two, *corpus.documents)
    assert one.counters.documents_embedded == two.counters.documents_from_cache == 2
    assert two.counters.documents_embedded == 0
    question = Query("mail somebody")
    first, second = one.index(corpus).rank(question), two.index(corpus).rank(question)
    assert first.scores.tolist() == second.scores.tolist()


def test_a_changed_tool_alone_is_embedded_again_and_one_that_is_gone_is_pruned(
    model: LazyModel, directory: Path
) -> None:
    prepared(cached(model, directory), document(1), document(2), document(3))
    later = cached(model, directory)
    prepared(later, document(1), document(2, "changed"))
    assert later.counters.documents_embedded == 1
    assert later.counters.documents_from_cache == 1
    assert stored(directory) == {"s__tool_1": "1 Read a file.", "s__tool_2": "2 changed"}


@pytest.mark.requirement("cache:incremental")
def test_a_file_that_is_in_step_is_not_written_again(model: LazyModel, directory: Path) -> None:
    prepared(cached(model, directory), document(1))
    before = (directory / "h.sqlite").stat().st_mtime_ns
    prepared(cached(model, directory), document(1))
    assert (directory / "h.sqlite").stat().st_mtime_ns == before


def test_work_that_was_cut_short_reaches_the_file_with_the_next(
    model: LazyModel, directory: Path
) -> None:
    signal = cached(model, directory)
    prepared(signal, document(1))
    for _ in signal.prepare(Corpus([document(1, "changed")])):
        break
    assert stored(directory) == {"s__tool_1": "1 Read a file."}
    prepared(signal, document(1, "changed"))
    assert stored(directory) == {"s__tool_1": "1 changed"}
    assert signal.counters.documents_embedded == 2


def test_a_damaged_file_is_rebuilt_from_scratch(
    model: LazyModel, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prepared(cached(model, directory), document(1), document(2))
    path = directory / "h.sqlite"
    path.write_bytes(path.read_bytes()[:5000])
    later = cached(model, directory)
    prepared(later, document(1), document(2))
    assert later.counters.documents_embedded == 2
    assert len(stored(directory)) == 2
    assert "damaged" in caplog.text


def test_vectors_of_another_model_are_not_used(
    model: LazyModel, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    entry = CachedVector(document(1).digest, np.ones(384, np.float32))
    cache(directory).save("not-MiniLM", {document(1).id: entry})
    later = cached(model, directory)
    prepared(later, document(1))
    assert later.counters.documents_embedded == 1
    assert "written by model 'not-MiniLM" in caplog.text
    assert cache(directory).load(name(model)).keys() == {"s__tool_1"}


def test_what_was_all_taken_over_from_elsewhere_is_kept_here_too(
    model: LazyModel, directory: Path
) -> None:
    for each in ("one", "other"):
        signal = SemanticSignal(model, lambda each=each: cache(directory, each))
        prepared(signal, document(1), document(2))
    assert signal.counters.documents_embedded == 0
    assert cache(directory, "other").load(name(model)).keys() == {"s__tool_1", "s__tool_2"}


def test_a_file_that_somebody_else_has_made_older_is_brought_in_step(
    model: LazyModel, directory: Path
) -> None:
    def signal() -> SemanticSignal:
        return SemanticSignal(model, lambda: cache(directory, "h"))

    late = signal()
    prepared(signal(), document(1), document(2))
    prepared(late, document(1, "changed"), document(2))
    prepared(signal(), document(1), document(2), document(3))
    prepared(late, document(1, "changed"), document(2), document(3))
    found = {each: e.digest for each, e in cache(directory, "h").load(name(model)).items()}
    assert found["s__tool_1"] == "1 changed"


def test_vectors_of_another_length_are_made_anew(encoder: Encoder, directory: Path) -> None:
    """cache:validity: at an address there may be another model, one day."""

    def signal(dimensions: int) -> SemanticSignal:
        wide = Narrow(encoder, 0.1, encoder.name, encoder.model)
        loaded = Loaded(wide if dimensions == wide.dim else encoder)
        model = LazyModel(lambda: loaded, lambda: ModelIdentity(encoder.name))
        return SemanticSignal(model, lambda: cache(directory, "h"))

    for dimensions in (384, 385, 384, 385):
        later = signal(dimensions)
        corpus = prepared(later, document(1), document(2, "Send mail."))
        assert later.counters.documents_embedded == 2
        assert not later.index(corpus).rank(Query("mail somebody")).degraded
        entries = cache(directory, "h").load(encoder.name)
        assert {entry.vector.size for entry in entries.values()} == {dimensions}


@pytest.mark.requirement("cache:incremental")
def test_another_set_of_servers_takes_over_what_it_shares(
    model: LazyModel, directory: Path
) -> None:
    prepared(cached(model, directory), document(1), document(2))
    other = SemanticSignal(model, lambda: cache(directory, "other"))
    prepared(other, document(1), document(2, "changed"), document(1, server="new"))
    assert other.counters.documents_from_cache == 1
    assert other.counters.documents_embedded == 2
    assert len(cache(directory, "other").load(name(model))) == 3


def name(model: LazyModel) -> str:
    encoder = model.get().encoder
    assert encoder
    return encoder.name


@pytest.mark.requirement("model:lazy")
def test_what_is_cached_can_be_found_before_the_model_is_loaded(directory: Path) -> None:
    choice, gate = Choice("bundled"), threading.Event()
    prepared(cached(lazy(choice), directory), document(1))

    def late() -> Loaded:
        assert gate.wait(60)
        return load_choice(choice, Progress())

    model = LazyModel(late, lambda: identify(choice))
    signal = cached(model, directory)
    corpus = Corpus([document(1)])
    steps = signal.prepare(corpus)
    assert next(steps) == 0
    assert model.loaded is None
    gate.set()
    assert not signal.index(corpus).rank(Query("read a file")).degraded
    assert model.loaded is not None
    assert list(steps) == []
    assert signal.counters.documents_embedded == 0


@pytest.mark.requirement("cache:incremental")
def test_what_is_embedded_reaches_the_file_on_the_way_and_what_others_wrote_is_used(
    model: LazyModel, directory: Path
) -> None:
    """cache:safe, cache:incremental: a kill costs one batch; two processes share the work."""
    assert BATCH_DOCUMENTS == 64
    corpus = Corpus(document(number) for number in range(3 * BATCH_DOCUMENTS))
    signals = [SemanticSignal(model, lambda: cache(directory), save_every_s=0) for _ in range(2)]
    first = signals[0].prepare(corpus)
    next(first)
    next(first)
    assert len(stored(directory)) == BATCH_DOCUMENTS
    prepared(signals[1], *corpus.documents)
    assert signals[1].counters.documents_embedded == 2 * BATCH_DOCUMENTS
    for _ in first:
        pass
    assert signals[0].counters.documents_embedded == 2 * BATCH_DOCUMENTS
    assert len(stored(directory)) == len(corpus)


# Without a model


def test_without_a_model_it_says_so_and_writes_nothing(
    no_model: LazyModel, directory: Path
) -> None:
    signal = cached(no_model, directory)
    corpus = prepared(signal, document(1), document(2))
    ranking = signal.index(corpus).rank(Query("read"))
    assert np.isnan(ranking.scores).all()
    assert ranking.degraded == "searching without meaning: there is no model"
    assert signal.counters.documents_embedded == signal.embedded == 0
    assert not directory.exists()


def test_the_vectors_of_a_server_that_is_away_are_kept(encoder: Encoder, tmp_path: Path) -> None:
    """cache:validity: what its server no longer has is gone; a server that is away comes back."""
    model = LazyModel(lambda: Loaded(encoder))
    here, away, gone = document(1), document(2, server="away"), document(3)

    def embedded(*documents: Document) -> int:
        signal = SemanticSignal(model, lambda: cache(tmp_path))
        prepared(signal, *documents)
        return signal.counters.documents_embedded

    assert embedded(here, away, gone) == 3
    assert embedded(here) == 0
    assert embedded(here, away) == 0
    assert embedded(here, away, gone) == 1


def test_a_model_that_fails_at_work_is_done_without_and_that_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "all-MiniLM-L6-v2"
    shutil.copytree(BUNDLED_FOLDER, folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_bytes())
    tokenizer["model"]["vocab"]["file"] = 99_999
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    model = LazyModel(lambda: load_model(str(folder), "bundled", 1))
    signal = SemanticSignal(model, lambda: None)
    ranking = signal.index(prepared(signal, document(1))).rank(Query("anything"))
    assert np.isnan(ranking.scores).all()
    assert ranking.degraded.startswith("searching without meaning: model all-MiniLM-L6-v2 failed: ")
    asked = SemanticSignal(LazyModel(lambda: load_model(str(folder), "bundled", 1)), lambda: None)
    index = asked.index(prepared(asked, document(1, "Read it.")))
    assert not index.rank(Query("read it")).degraded
    assert "failed" in index.rank(Query("a file")).degraded


def test_a_changed_document_changes_its_own_row_and_no_former_index(
    signal: SemanticSignal, model: LazyModel
) -> None:
    documents = [document(number, f"Do the work of day {number}.") for number in range(20)]
    former = signal.index(prepared(signal, *documents))
    assert former.vectors is not None
    before = former.vectors.copy()
    documents[7] = document(7, "Water the plants.")
    corpus = prepared(signal, *documents)
    now = signal.index(corpus)
    assert former.version < now.version == signal.version
    fresh = SemanticSignal(model, lambda: None)
    expected = fresh.index(prepared(fresh, *documents)).vectors
    assert now.vectors is not None
    assert expected is not None
    np.testing.assert_allclose(now.vectors, expected, atol=1e-6)
    changed = np.flatnonzero((now.vectors != before).any(axis=1))
    assert changed.tolist() == [corpus.rows["s__tool_7"]]
    assert np.array_equal(former.vectors, before)


def test_a_question_is_ranked_with_its_parts_as_it_is_alone(signal: SemanticSignal) -> None:
    topics = ("Water the plants.", "Read a file.", "Convert a currency.", "Send an e-mail.")
    documents = [document(number, text) for number, text in enumerate(topics)]
    index = signal.index(prepared(signal, *documents))
    whole = Query("water the plants, then read a file", ("water the plants", "read a file"))
    first, *parts = index.rank_all([whole, *map(Query, whole.subqueries)])
    np.testing.assert_array_equal(first.scores, index.rank(whole).scores)
    assert [int(ranking.scores.argmax()) for ranking in parts] == [0, 1]
