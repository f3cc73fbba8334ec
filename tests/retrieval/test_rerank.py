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
    """graph:context, graph:learning"""
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
def test_a5_without_a_context_the_second_stage_does_not_run(habitual: SearchEngine) -> None:
    """graph:context"""
    plain = hits(habitual, "read a file")
    assert all(hit.own is None and "graph" not in hit.signals for hit in plain.values())
    known = hits(habitual, "read a file", context=tuple(HABIT[:1]))
    assert all(hit.own is not None and "graph" in hit.signals for hit in known.values())


@pytest.mark.requirement("graph:context")
def test_with_an_empty_graph_a_context_changes_nothing(
    model: LazyModel, documents: tuple[Document, ...]
) -> None:
    """graph:context"""
    bare, empty = engine_of(model, documents, None), engine_of(model, documents, Learning())
    for text in QUESTIONS:
        expected = {i: hit.score for i, hit in hits(bare, text).items()}
        found = hits(empty, text, context=("git__git_add",))
        assert {i: hit.score for i, hit in found.items()} == expected
        assert not any("graph" in hit.signals for hit in found.values())


@pytest.mark.requirement("graph:context")
def test_the_score_is_alpha_own_plus_the_rest_graph(habitual: SearchEngine) -> None:
    """graph:alpha, graph:context"""
    found = hits(habitual, "put my changes on record", context=tuple(HABIT[:2]))
    result = habitual.search(SearchRequest(text="x", context=tuple(HABIT[:2])))
    assert (result.alpha, result.edges) == (0.8, 3)
    own = {i: hit.score for i, hit in hits(habitual, "put my changes on record").items()}
    for identifier, hit in found.items():
        assert hit.own == own[identifier]
        expected = 0.8 * own[identifier] + 0.2 * hit.signals["graph"]
        assert hit.score == pytest.approx(expected, abs=2e-6)
    best = max(found.values(), key=lambda hit: hit.signals["graph"])
    assert best.document.id == HABIT[2]


@pytest.mark.requirement("graph:context", "graph:learning")
def test_a_graph_that_foresees_little_moves_no_score_and_one_that_learns_to_moves_them_slowly(
    model: LazyModel, documents: tuple[Document, ...]
) -> None:
    """graph:context, graph:learning: 33 calls of mixed sessions, and 200 more."""
    bare, learning = engine_of(model, documents, None), Learning()
    engine = engine_of(model, documents, learning)
    order, ids = random.Random(0), [document.id for document in documents]  # noqa: S311 - the same draw every time
    for calls in (33, 200):
        learning.graph.learn(order.choices(ids, k=calls))
        for _ in range(calls):
            learning.graph.record_gain(0.1)
        for text in QUESTIONS:
            context = tuple(order.sample(ids, 3))
            request = SearchRequest(text=text, limit=100, context=context)
            found = engine.search(request)
            expected = bare.search(SearchRequest(text=text, limit=100))
            assert found.alpha == 1.0 < found.edges
            assert [(hit.document.id, hit.score, hit.reason) for hit in found.hits] == [
                (hit.document.id, hit.score, hit.reason) for hit in expected.hits
            ]
    alphas: list[float] = []
    for _ in range(150):
        learning.graph.record_gain(0.9)
        request = SearchRequest(text=QUESTIONS[0], context=(ids[0],))
        alphas.append(engine.search(request).alpha)
    assert alphas == sorted(alphas, reverse=True)
    assert (alphas[0], alphas[-1]) == (1.0, 0.5)
    assert max(before - after for before, after in pairwise(alphas)) < 0.05


@pytest.mark.requirement("graph:context")
def test_what_goes_with_the_context_comes_first(
    model: LazyModel, documents: tuple[Document, ...]
) -> None:
    """graph:context, graph:learning"""
    learning = Learning()
    engine = engine_of(model, documents, learning)
    for _ in range(40):
        learning.graph.learn(HABIT)
        learning.graph.learn(["time__get_current_time", "fetch__fetch"])
        learning.graph.record_gain(1.0)
    text = "do the next thing"
    assert next(iter(hits(engine, text, context=tuple(HABIT[:2])))) == HABIT[2]
    assert next(iter(hits(engine, text, context=("time__get_current_time",)))) == "fetch__fetch"
    found = hits(engine, text, context=tuple(HABIT[:2]), explain=True)[HABIT[2]]
    assert found.reason == "Goes with git__git_add"
    assert found.explanation is not None
    assert found.explanation.steps[-1].name == "context"


@pytest.mark.requirement("graph:methods")
def test_a5_with_templates_alone_a_context_raises_what_they_connect(
    model: LazyModel, documents: tuple[Document, ...]
) -> None:
    """graph:methods, graph:context: the seed's cold start, with its numbers; nothing is lowered."""
    learning = Learning()
    engine = engine_of(model, documents, learning)
    steps = ["git__git_status", "git__git_diff", "git__git_add", "git__git_commit"]
    learning.graph.bootstrap_from_templates([Template(pairs=tuple(pairwise(steps)))])
    context = tuple(steps[:2])
    connected = {"git__git_add", "git__git_commit"}
    for text in ("put my work on record", "stage files", "git commit please", "what time is it"):
        own, found = hits(engine, text), hits(engine, text, context=context)
        for identifier, hit in found.items():
            before, said = own[identifier].score, hit.signals["graph"]
            formula = 0.8 * before + 0.2 * said
            if identifier not in steps:
                assert hit.score == pytest.approx(formula, abs=2e-6)
            else:
                assert hit.score == pytest.approx(max(before, formula), abs=2e-6)
            if identifier in connected and before < said:
                assert hit.score > before
    for text in ("put my work on record", "what time is it"):
        own, found = hits(engine, text), hits(engine, text, context=context)
        related = learning.graph.graph_relatedness("git__git_commit", context)
        assert found["git__git_commit"].signals["graph"] == pytest.approx(related, abs=1e-6)
        assert related > 0.5
        assert found["git__git_commit"].score > own["git__git_commit"].score


def test_an_exact_name_is_first_whatever_the_context(habitual: SearchEngine) -> None:
    """graph:context, search:exact"""
    found = hits(habitual, "fetch", context=tuple(HABIT[:2]))
    assert next(iter(found)) == "fetch__fetch"
    assert found["fetch__fetch"].score == 1.0


@pytest.mark.requirement("graph:context")
def test_a_context_keeps_nothing_out_that_passed(habitual: SearchEngine) -> None:
    """graph:context"""
    passing = set(hits(habitual, "read a file", threshold=0.5))
    assert passing
    assert passing <= set(hits(habitual, "read a file", threshold=0.5, context=tuple(HABIT[:1])))


@pytest.mark.requirement("graph:context")
def test_what_a_context_raises_but_does_not_pass_takes_no_place(habitual: SearchEngine) -> None:
    """graph:context"""
    text, context = "read a file", tuple(HABIT[:1])
    # More sure without the context than another is with it, and yet behind that.
    of_habit = hits(habitual, text, context=context)[HABIT[1]]
    other = next(
        hit
        for hit in hits(habitual, text, context=context).values()
        if hit.own is not None and hit.score < of_habit.score < hit.own
    )
    assert other.own is not None
    threshold = (of_habit.score + other.own) / 2
    every = hits(habitual, text, context=context, threshold=threshold)
    assert other.document.id in every
    assert HABIT[1] not in every
    for limit in range(1, 1 + len(every)):
        request = SearchRequest(text=text, context=context, limit=limit, threshold=threshold)
        result = habitual.search(request)
        assert [hit.document.id for hit in result.hits] == list(every)[:limit]
        assert not every.keys() & {hit.document.id for hit in result.nearest}
    for number, tool in enumerate(every, 1):
        request = SearchRequest(text=text, context=context, limit=1, threshold=threshold, why=tool)
        why = habitual.search(request).why
        assert why is not None
        assert f"number {number}" in why.verdict


@settings(max_examples=20)
@given(context=st.lists(st.sampled_from([*HABIT, "x__gone", "fetch__fetch"]), max_size=5))
def test_scores_stay_in_0_to_1_and_in_order(habitual: SearchEngine, context: list[str]) -> None:
    found = hits(habitual, "commit my changes", context=tuple(context))
    scores = [hit.score for hit in found.values()]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_related_tools_come_with_their_evidence_and_only_those_that_are_the_callers(
    model: LazyModel, documents: tuple[Document, ...]
) -> None:
    """graph:learning"""
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
    """graph:learning"""
    assert adjusted(experience({}), 1, 1, 0, 0) == pytest.approx([0.5**0.5, 0.5**0.5, 0, 0])


@pytest.mark.requirement("graph:learning")
def test_a_history_decides_between_tools_that_have_one_and_raises_none_above_the_best() -> None:
    """graph:learning"""
    made = experience({"s__a": [[0, 0.1, 1, 1]] * 9, "s__b": [[1, 1, 0.2, 0]] * 9})
    question = (0.9, 1.0, 1.2, 1.5)
    before = np.array(question) / np.linalg.norm(question)
    after = adjusted(made, *question)
    assert before[1] > before[0]
    assert after[0] > after[1]
    assert max(after[:2]) == pytest.approx(before[:2].max())
    assert after[2:] == pytest.approx(before[2:].tolist())


def test_a_question_that_was_asked_before_finds_what_it_led_to() -> None:
    """graph:learning"""
    made = experience({"s__a": [[0, 0, 1, 1]] * 20})
    weight = MAX_SHIFT * 20 / 23
    vector = np.array([1 - weight, 0, weight * 0.5**0.5, weight * 0.5**0.5])
    expected = float(vector / np.linalg.norm(vector) @ np.array([0, 0, 0.5**0.5, 0.5**0.5]))
    assert adjusted(made, 0, 0, 1, 1)[0] == pytest.approx(expected, abs=1e-6)
    assert adjusted(made, 0, 0, 1, 0)[0] == pytest.approx(0, abs=1e-6)  # near, but not the same


def test_what_is_learned_or_forgotten_counts_at_once() -> None:
    """graph:learning"""
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
    """graph:learning"""
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
