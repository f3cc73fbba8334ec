"""What a context, and what tools were found by, make of a search."""

import random
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolscript.embedding.loader import LazyModel
from toolscript.graph.base import Template
from toolscript.graph.learning import Learning
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.lexical.bm25f import LexicalSignal
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.rerank import STRENGTH
from toolscript.retrieval.semantic.relevance_feedback import MAX_SHIFT, RelevanceFeedback
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import Document, Grant, Hit, SearchRequest

HABIT = ["git__git_status", "git__git_add", "git__git_commit"]


def engine_of(
    model: LazyModel, documents: Iterable[Document], learning: Learning | None
) -> SearchEngine:
    semantic = SemanticSignal(model, lambda: None, usage=learning and learning.usage)
    made = SearchEngine(search_profile(0.7, 10, 0.0), LexicalSignal(), semantic, learning)
    made.update(documents)
    return made


@pytest.fixture(scope="module")
def habitual(model: LazyModel, documents: tuple[Document, ...]) -> SearchEngine:
    """An engine whose graph knows one habit well. Not to be taught more."""
    learning = Learning()
    made = engine_of(model, documents, learning)
    for _ in range(30):
        learning.graph.learn(HABIT)
        learning.graph.record_gain(0.9)
    return made


def hits(engine: SearchEngine, text: str, **more: object) -> dict[str, Hit]:
    request = SearchRequest(text=text, limit=100, **more)  # pyright: ignore[reportArgumentType] - any field
    return {hit.document.id: hit for hit in engine.search(request).hits}


QUESTIONS = ["put my changes on record", "read a file", "what time is it", "git_diff", "zxqv"]


@pytest.mark.requirement("graph:context")
def test_without_context_every_score_is_bit_for_bit_that_of_no_graph(
    model: LazyModel, documents: tuple[Document, ...], habitual: SearchEngine
) -> None:
    bare = engine_of(model, documents, None)
    empty = engine_of(model, documents, Learning())
    random_order = random.Random(0)  # noqa: S311 - the same draw every time
    full, ids = Learning(), [document.id for document in documents]
    crowded = engine_of(model, documents, full)
    for _ in range(200):
        full.graph.learn(random_order.sample(ids, 4))
    full.graph.add_dependencies(pairwise(ids))
    for text in QUESTIONS:
        expected = [(i, hit.score, hit.reason) for i, hit in hits(bare, text).items()]
        for other in (empty, habitual, crowded):
            assert [(i, hit.score, hit.reason) for i, hit in hits(other, text).items()] == expected
            assert other.search(SearchRequest(text=text)).alpha == 1.0


@pytest.mark.requirement("graph:context")
def test_a5_without_a_context_no_further_step_runs(habitual: SearchEngine) -> None:
    for by_relatedness, signal in ((False, "forecast"), (True, "graph")):
        plain = hits(habitual, "read a file", by_relatedness=by_relatedness)
        assert all(hit.own is None and signal not in hit.signals for hit in plain.values())
        known = hits(
            habitual, "read a file", context=tuple(HABIT[:1]), by_relatedness=by_relatedness
        )
        assert signal in known[HABIT[1]].signals
        assert (known[HABIT[1]].own is not None) is by_relatedness


@pytest.mark.requirement("graph:context")
@pytest.mark.parametrize("by_relatedness", [False, True])
@pytest.mark.parametrize("sequences", [[], [HABIT]], ids=["empty", "of other tools"])
def test_a_context_without_an_edge_changes_nothing(
    model: LazyModel,
    documents: tuple[Document, ...],
    sequences: list[list[str]],
    *,
    by_relatedness: bool,
) -> None:
    """graph:context: whatever the graph has proved about other tools."""
    bare, learning = engine_of(model, documents, None), Learning()
    engine = engine_of(model, documents, learning)
    for _ in range(60):
        for sequence in (*sequences, ["time__get_current_time"]):
            learning.graph.learn(sequence)
        learning.graph.record_gain(0.9)
    context = ("fetch__fetch", "time__get_current_time", "x__gone")
    for text in QUESTIONS:
        expected = [(i, hit.score, hit.reason) for i, hit in hits(bare, text).items()]
        request = SearchRequest(
            text=text, limit=100, context=context, by_relatedness=by_relatedness
        )
        found = engine.search(request)
        assert [(h.document.id, h.score, h.reason) for h in found.hits] == expected
        assert found.alpha == 1.0
        assert not any({"graph", "forecast"} & hit.signals.keys() for hit in found.hits)


@pytest.mark.requirement("graph:alpha")
@pytest.mark.parametrize(("edges", "alpha"), [(2, 0.8), (49, 0.8), (50, 0.6), (200, 0.5)])
def test_by_relatedness_the_score_is_alpha_own_plus_the_rest_adamic_adar(
    model: LazyModel, documents: tuple[Document, ...], edges: int, alpha: float
) -> None:
    """graph:alpha: alpha follows the number of edges, whatever the graph has proved."""
    learning = Learning()
    engine = engine_of(model, documents, learning)
    steps = [*pairwise(["git__git_status", "git__git_diff", "git__git_add"])]
    steps += [("x__hub", f"x__{number}") for number in range(edges - 2)]
    learning.graph.bootstrap_from_templates([Template(pairs=tuple(steps))])
    text, context = "put my changes on record", ("git__git_status", "fetch__fetch")
    request = SearchRequest(text=text, limit=100, context=context, by_relatedness=True)
    result, own = engine.search(request), hits(engine, text)
    assert (result.alpha, result.edges) == (alpha, edges)
    assert learning.graph.stats().alpha == alpha
    for hit in result.hits:
        related = learning.graph.graph_relatedness(hit.document.id, context)
        assert (hit.document.id == "git__git_add") is (related > 0)
        assert hit.signals["graph"] == pytest.approx(related, abs=1e-6)
        before = own[hit.document.id].score
        assert hit.own == before
        expected = alpha * before + (1 - alpha) * related
        assert hit.score == pytest.approx(expected, abs=2e-6)


@pytest.mark.requirement("graph:context", "graph:learning")
def test_the_forecast_raises_the_odds_by_what_the_graph_has_proved(
    model: LazyModel, documents: tuple[Document, ...]
) -> None:
    """graph:context, graph:learning: nothing is lowered, and nothing unlikely becomes likely."""
    learning = Learning()
    engine = engine_of(model, documents, learning)
    for _ in range(60):
        learning.graph.learn(HABIT)
    context = tuple(HABIT[:2])
    own = hits(engine, "put my changes on record")
    before = hits(engine, "put my changes on record", context=context)
    assert {i: hit.score for i, hit in before.items()} == {i: h.score for i, h in own.items()}
    rises: list[float] = []
    for gain in (0.0, 0.5, 1.0):
        for _ in range(100):
            learning.graph.record_gain(gain)
        found = hits(engine, "put my changes on record", context=context)
        for identifier, hit in found.items():
            score, strength = own[identifier].score, hit.signals.get("forecast", 0.0)
            odds = score / (1 - score) * np.exp(STRENGTH * strength)
            assert hit.score == pytest.approx(odds / (1 + odds), abs=2e-6)
        rise = {i: hit.score - own[i].score for i, hit in found.items()}
        assert max(rise.values()) == rise[HABIT[2]]
        rises.append(rise[HABIT[2]])
    assert rises[0] == 0 < rises[1] < rises[2]
    unlikely = hits(engine, "what time is it", context=context)[HABIT[2]]
    assert unlikely.score < 0.35


@pytest.mark.requirement("graph:context")
def test_what_goes_with_the_context_comes_first(
    model: LazyModel, documents: tuple[Document, ...]
) -> None:
    learning = Learning()
    engine = engine_of(model, documents, learning)
    for _ in range(40):
        learning.graph.learn(HABIT)
        learning.graph.learn(["time__get_current_time", "fetch__fetch"])
        learning.graph.record_gain(1.0)
    text = "commit or fetch the next thing"
    assert next(iter(hits(engine, text, context=tuple(HABIT[:2])))) == HABIT[2]
    assert next(iter(hits(engine, text, context=("time__get_current_time",)))) == "fetch__fetch"
    found = hits(engine, text, context=tuple(HABIT[:2]), explain=True)[HABIT[2]]
    assert found.reason == "Goes with git__git_add"
    assert found.explanation is not None
    assert found.explanation.steps[-1].name == "forecast"


@pytest.mark.requirement("graph:methods")
def test_a5_with_templates_alone_a_context_raises_what_they_put_beside_it(
    model: LazyModel, documents: tuple[Document, ...]
) -> None:
    """graph:methods, graph:context: nothing has been proved yet, and nothing is lowered."""
    learning = Learning()
    engine = engine_of(model, documents, learning)
    steps = ["git__git_status", "git__git_diff", "git__git_add", "git__git_commit"]
    learning.graph.bootstrap_from_templates([Template(pairs=tuple(pairwise(steps)))])
    for text in ("put my work on record", "stage files", "git commit please", "what time is it"):
        own, found = hits(engine, text), hits(engine, text, context=tuple(steps[:2]))
        for identifier, hit in found.items():
            before = own[identifier].score
            if identifier == "git__git_add" and before > 0:
                assert hit.score > before
            else:
                assert hit.score == before


@pytest.mark.parametrize("by_relatedness", [False, True])
def test_an_exact_name_is_first_whatever_the_context(
    habitual: SearchEngine, *, by_relatedness: bool
) -> None:
    more = {"context": tuple(HABIT[:2]), "by_relatedness": by_relatedness}
    found = hits(habitual, "fetch", **more)
    assert next(iter(found)) == "fetch__fetch"
    assert found["fetch__fetch"].score == 1.0


@settings(max_examples=20)
@given(context=st.lists(st.sampled_from([*HABIT, "x__gone", "fetch__fetch"]), max_size=5))
def test_scores_stay_in_0_to_1_and_in_order(habitual: SearchEngine, context: list[str]) -> None:
    for by_relatedness in (False, True):
        more = {"context": tuple(context), "by_relatedness": by_relatedness}
        scores = [hit.score for hit in hits(habitual, "commit my changes", **more).values()]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)


def test_related_tools_come_with_their_evidence_and_only_those_that_are_the_callers(
    model: LazyModel, documents: tuple[Document, ...]
) -> None:
    learning = Learning()
    engine = engine_of(model, documents, learning)
    learning.graph.learn(["fetch__fetch", *HABIT])
    for _ in range(3):
        learning.graph.learn(HABIT)
        learning.graph.learn([HABIT[0], "gone__tool"])
    learning.graph.bootstrap_from_templates([Template(pairs=((HABIT[1], "time__convert_time"),))])
    learning.graph.add_dependencies([(HABIT[1], HABIT[0])])
    related = hits(engine, "stage files")[HABIT[1]].related
    assert related is not None
    assert related.before[0].tool == HABIT[0]
    assert related.before[0].evidence == "used right before it 4 times"
    assert {each.tool for each in related.after} == {HABIT[2], "time__convert_time"}
    assert [(each.tool, each.evidence) for each in related.needs] == [
        (HABIT[0], "declared to be needed first")
    ]
    mine = Grant(servers=("git",))
    known = hits(engine, "stage files", grant=mine)[HABIT[1]].related
    assert known is not None
    assert {each.tool for each in (*known.before, *known.after)} == {HABIT[0], HABIT[2]}
    first = hits(engine, "stage files")[HABIT[0]].related
    assert first is not None
    assert "gone__tool" not in {each.tool for each in first.after}


# Experience


def experience(learned: dict[str, list[list[float]]]) -> RelevanceFeedback:
    """Four tools with the unit vectors of four directions."""
    learning = Learning()
    for tool, questions in learned.items():
        for question in questions:
            vector = np.array(question, dtype=np.float32)
            learning.usage.learn(tool, "m", (vector / np.linalg.norm(vector)).astype(np.float32))
    ids = [f"s__{name}" for name in "abcd"]
    return RelevanceFeedback(learning.usage, "m", ids, np.eye(4, dtype=np.float32), lambda x: x)


def adjusted(made: RelevanceFeedback, *question: float) -> list[float]:
    vector = np.array(question, dtype=np.float32)
    vector /= np.linalg.norm(vector)
    return made.adjust(made.vectors @ vector, vector).tolist()


def test_without_a_history_nothing_moves() -> None:
    assert adjusted(experience({}), 1, 1, 0, 0) == pytest.approx([0.5**0.5, 0.5**0.5, 0, 0])


@pytest.mark.requirement("graph:learning")
def test_a_history_decides_between_tools_that_have_one_and_raises_none_above_the_best() -> None:
    made = experience({"s__a": [[0, 0.1, 1, 1]] * 9, "s__b": [[1, 1, 0.2, 0]] * 9})
    question = (0.9, 1.0, 1.2, 1.5)
    before = np.array(question) / np.linalg.norm(question)
    after = adjusted(made, *question)
    assert before[1] > before[0]
    assert after[0] > after[1]
    assert max(after[:2]) == pytest.approx(before[:2].max())
    assert after[2:] == pytest.approx(before[2:].tolist())


def test_a_question_that_was_asked_before_finds_what_it_led_to() -> None:
    made = experience({"s__a": [[0, 0, 1, 1]] * 20})
    weight = MAX_SHIFT * 20 / 23
    vector = np.array([1 - weight, 0, weight * 0.5**0.5, weight * 0.5**0.5])
    expected = float(vector / np.linalg.norm(vector) @ np.array([0, 0, 0.5**0.5, 0.5**0.5]))
    assert adjusted(made, 0, 0, 1, 1)[0] == pytest.approx(expected, abs=1e-6)
    assert adjusted(made, 0, 0, 1, 0)[0] == pytest.approx(0, abs=1e-6)  # near, but not the same


def test_what_is_learned_or_forgotten_counts_at_once() -> None:
    made = experience({})
    question = np.array([0.5**0.5, 0.5**0.5, 0, 0], dtype=np.float32)
    cosines = made.vectors @ question
    assert made.adjust(cosines, question) is cosines
    made.usage.learn("s__a", "m", question)
    assert made.adjust(cosines, question) is not cosines
    made.usage.clear()
    assert made.adjust(cosines, question) is cosines


def test_a_tool_is_found_by_what_led_to_it(
    model: LazyModel, documents: tuple[Document, ...]
) -> None:
    learning = Learning()
    engine = engine_of(model, documents, learning)
    text = "let the boss know how it went"
    before = hits(engine, text)
    encoder = model.get().encoder
    assert encoder is not None
    for _ in range(10):
        learning.usage.learn("memory__add_observations", encoder.name, encoder.query(text))
    after = hits(engine_of(model, documents, learning), text)
    places = [list(found).index("memory__add_observations") for found in (before, after)]
    assert places[1] == 0 < places[0]
    untouched = "fetch__fetch"
    assert after[untouched].signals == before[untouched].signals
