import json
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.signals import Delighted, signal_of
from toolscript.config.settings import MAX_QUERY_CHARS
from toolscript.embedding.loader import LazyModel, load_model
from toolscript.errors import QueryError, RangeError
from toolscript.retrieval.engine import NEAREST, SearchEngine
from toolscript.retrieval.fusion import DECIMALS
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.text.words import words
from toolscript.types import Document, Grant, SearchRequest, SearchResult

MakeEngine = Callable[..., SearchEngine]


def ask(engine: SearchEngine, text: str, **more: object) -> SearchResult:
    return engine.search(SearchRequest(text=text, **more))  # pyright: ignore[reportArgumentType] - any field


def ids(result: SearchResult) -> list[str]:
    return [hit.document.id for hit in result.hits]


@pytest.mark.parametrize(
    "text",
    ["commit my changes to git", "git log", "raed_file", "find files and then send a mail", "zxqv"],
)
def test_a_search_by_words_only_is_that_of_an_engine_without_a_model(
    engine: SearchEngine, documents: tuple[Document, ...], text: str
) -> None:
    without = SearchEngine(search_profile(0.7, 3, 0.35))
    without.update(documents)

    def asked(which: SearchEngine, **more: Any) -> SearchResult:
        return ask(which, text, threshold=0, limit=20, explain=True, why="git_log", **more)

    assert asked(engine, words_only=True) == asked(without)
    assert asked(engine, words_only=True, alpha=1) == asked(without)
    assert asked(engine) != asked(without)


def everything(engine: SearchEngine, text: str) -> dict[str, float]:
    """Every document's score, in the order of the result."""
    result = ask(engine, text, threshold=0, limit=100)
    return {hit.document.id: hit.score for hit in result.hits}


# Ranking


@pytest.mark.requirement("search:rank")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("open a document and show me its text", "filesystem__read_file"),
        ("commit my changes to git", "git__git_commit"),
        ("switch to another branch", "git__git_checkout"),
        ("what time is it in Tokyo", "time__get_current_time"),
        ("download a web page", "fetch__fetch"),
        ("rename a file", "filesystem__move_file"),
        ("which files match a pattern", "filesystem__search_files"),
        ("show the differences between two branches", "git__git_diff"),
    ],
)
def test_a_question_in_plain_words_finds_the_tool(
    engine: SearchEngine, text: str, expected: str
) -> None:
    result = ask(engine, text)
    assert ids(result)[0] == expected
    for hit in result.hits:
        assert 0.35 <= hit.score <= 1
        assert hit.reason
        assert hit.signals.keys() == {"semantic", "fuzzy"}


@pytest.mark.requirement("search:rank")
def test_hits_are_ordered_by_confidence_and_then_by_id(make_engine: MakeEngine) -> None:
    twins = [
        Document(id=f"{s}__read", server="x", name="t", description="Read a file.", digest=s)
        for s in "dbca"
    ]
    other = Document(id="e__x", server="x", name="x", description="Send mail.", digest="e")
    result = ask(make_engine([other, *twins]), "read a file", threshold=0, limit=5)
    assert ids(result) == ["a__read", "b__read", "c__read", "d__read", "e__x"]
    assert len({hit.score for hit in result.hits}) == 2


@pytest.mark.requirement("search:typo")
@pytest.mark.parametrize("text", ["read_fil", "raed_file", "readfile", "read file"])
def test_a_misspelled_name_finds_the_tool(engine: SearchEngine, text: str) -> None:
    best = ask(engine, text).hits[0]
    assert best.document.id == "filesystem__read_file"
    assert best.score >= 0.75


@pytest.mark.requirement("search:typo")
def test_names_that_are_selected_are_all_that_is_found(engine: SearchEngine) -> None:
    git = ["git_add", "git_checkout", "git_commit", "git_create_branch", "git_diff", "git_log"]
    named = [f"git__{name}" for name in git]
    assert ids(ask(engine, f"select:{','.join(named)}")) == named
    assert len(ids(ask(engine, f"select:{','.join(named)}", limit=2))) == len(named)
    assert ids(ask(engine, "select:nope,git_comit")) == ["git__git_commit"]


def test_confidence_falls_with_the_distance_from_the_name(engine: SearchEngine) -> None:
    spellings = ("read_file", "raed_file", "raed_fil", "rxxd_xxlx")
    scores = [everything(engine, text)["filesystem__read_file"] for text in spellings]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == len(scores)
    assert scores[:2] == [1.0, 0.875]


ALPHAS = (0.0, 0.7, 1.0)


@pytest.fixture(scope="module", params=ALPHAS)
def weighted(
    request: pytest.FixtureRequest,
    make_engine: MakeEngine,
    documents: tuple[Document, ...],
    shell_documents: tuple[Document, ...],
) -> SearchEngine:
    return make_engine([*documents, *shell_documents], alpha=request.param)


@pytest.mark.requirement("search:exact")
def test_an_exact_name_id_or_its_words_is_always_first_whatever_the_weights(
    weighted: SearchEngine, documents: tuple[Document, ...], shell_documents: tuple[Document, ...]
) -> None:
    for tool in (*documents, *shell_documents):
        spellings = [tool.name, tool.id, f"{tool.server}:{tool.name}", " ".join(words(tool.name))]
        for text in spellings:
            result = ask(weighted, text)
            assert ids(result)[0] == tool.id, text
            assert result.hits[0].score == 1.0, text
            assert result.hits[0].reason == "Exact name"
            assert all(hit.score < 1 for hit in result.hits[1:]), text


@pytest.mark.requirement("search:exact")
@pytest.mark.parametrize("alpha", ALPHAS)
def test_tools_of_the_same_name_tie_and_the_qualified_one_is_alone(
    make_engine: MakeEngine, documents: tuple[Document, ...], alpha: float
) -> None:
    second = Document(
        id="archive__read_file",
        server="archive",
        name="read_file",
        description="Unpack.",
        digest="1",
    )
    engine = make_engine([*documents, second], alpha=alpha)
    for text in ("read_file", "read file", "readFile"):
        best = ask(engine, text).hits[:2]
        found = {hit.document.id: hit.score for hit in best}
        assert found == {"archive__read_file": 1.0, "filesystem__read_file": 1.0}
    for server in ("archive", "filesystem"):
        for separator in ("__", ":"):
            best = ask(engine, f"{server}{separator}read_file", threshold=0).hits
            assert best[0].document.id == f"{server}__read_file"
            assert best[0].score == 1.0 > best[1].score


@pytest.mark.requirement("search:exact")
def test_a_perfect_score_that_is_no_exact_name_stays_below_one() -> None:
    engine = SearchEngine(search_profile(1.0, 10, 0.0), semantic=signal_of(Delighted()))
    engine.update(
        [
            Document(id="a__b", server="a", name="b", digest="1"),
            Document(id="z__x", server="z", name="read_file", digest="2"),
        ]
    )
    found = everything(engine, "read file")
    assert list(found.items()) == [("z__x", 1.0), ("a__b", 1.0 - 10**-DECIMALS)]


# Intent


@pytest.mark.requirement("search:intent", "search:reason")
def test_with_only_a_shell_the_shell_is_inferred_with_its_confidence_raised(
    make_engine: MakeEngine, shell_documents: tuple[Document, ...]
) -> None:
    engine = make_engine(shell_documents)
    best = ask(engine, "commit my changes to git").hits[0]
    assert best.document.id == "shell__run_command"
    assert best.reason == "Capability inference (shell → git ops)"
    fused = 0.7 * best.signals["semantic"] + 0.3 * best.signals["fuzzy"]
    assert best.score == pytest.approx(fused + 0.45 * (1 - fused), abs=1e-5)
    assert best.score >= 0.35 > fused


@pytest.mark.requirement("search:intent")
def test_with_a_git_tool_present_that_is_first_and_nothing_is_inferred(
    make_engine: MakeEngine, documents: tuple[Document, ...], shell_documents: tuple[Document, ...]
) -> None:
    engine = make_engine([*documents, *shell_documents])
    result = ask(engine, "commit my changes to git", threshold=0, limit=100)
    assert ids(result)[0] == "git__git_commit"
    assert not [hit for hit in result.hits if "inference" in hit.reason]


@pytest.mark.requirement("search:intent")
def test_for_what_no_shell_can_do_a_shell_is_no_answer(
    make_engine: MakeEngine, shell_documents: tuple[Document, ...]
) -> None:
    assert ids(ask(make_engine(shell_documents), "add a meeting to my calendar")) == []


@pytest.mark.requirement("search:intent")
@pytest.mark.parametrize(
    "reach",
    [{"servers": ("shell",)}, {"grant": Grant(servers=("shell",))}],
    ids=["asked for", "granted"],
)
def test_a1_a_shell_is_inferred_whatever_there_is_out_of_reach(
    make_engine: MakeEngine,
    documents: tuple[Document, ...],
    shell_documents: tuple[Document, ...],
    reach: dict[str, Any],
) -> None:
    """search:intent: a git server that the caller may not see, or left out, answers nothing."""
    engine = make_engine([*documents, *shell_documents])
    best = ask(engine, "commit my changes to git", **reach).hits[0]
    assert best.document.id == "shell__run_command"
    assert best.reason == "Capability inference (shell → git ops)"


# Scores


@pytest.mark.requirement("search:fusion")
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.7, 1.0])
def test_the_score_is_alpha_semantic_plus_the_rest_fuzzy(
    make_engine: MakeEngine, documents: tuple[Document, ...], alpha: float
) -> None:
    engine = make_engine(documents, alpha=alpha)
    result = ask(engine, "list what is in a folder", threshold=0, limit=100, explain=True)
    assert len(result.hits) == len(documents)
    plain = 0
    for hit in result.hits:
        assert hit.explanation is not None
        expected = alpha * hit.signals["semantic"] + (1 - alpha) * hit.signals["fuzzy"]
        assert hit.explanation.fused == pytest.approx(expected, abs=2e-6)
        if [step.name for step in hit.explanation.steps] == ["word match"]:
            plain += 1
            if alpha in {0.0, 1.0}:
                assert hit.score == pytest.approx(hit.explanation.fused, abs=2e-6)
    assert plain > 10


def test_a_name_that_the_question_says_moves_the_score_towards_one_by_its_words_squared(
    make_engine: MakeEngine, documents: tuple[Document, ...]
) -> None:
    hit = ask(make_engine(documents), "please read me that file", threshold=0, explain=True).hits[0]
    assert hit.document.id == "filesystem__read_file"
    assert hit.explanation is not None
    before, step = hit.explanation.steps
    assert (step.name, step.evidence) == ("name boost", "the query says 100% of its name")
    boosted = before.score + 0.65 * hit.signals["fuzzy"] ** 2 * 1.0**2 * (1 - before.score)
    assert step.score == hit.score == pytest.approx(boosted, abs=2e-6)


@pytest.mark.requirement("search:fusion")
def test_every_candidate_is_scored_by_every_signal_wherever_it_ranks(
    engine: SearchEngine, documents: tuple[Document, ...]
) -> None:
    shown = ask(engine, "list what is in a folder", threshold=0, limit=1).hits
    every = ask(engine, "list what is in a folder", threshold=0, limit=100).hits
    assert shown == every[:1]
    assert {hit.document.id for hit in every} == {d.id for d in documents}
    assert all(hit.signals.keys() == {"semantic", "fuzzy"} for hit in every)
    assert sum(hit.signals["semantic"] > 0 for hit in every) > 10


@pytest.mark.requirement("search:fusion", "search:degraded")
def test_when_the_model_is_missing_fuzzy_carries_the_whole_weight(
    make_engine: MakeEngine, documents: tuple[Document, ...], no_model: LazyModel
) -> None:
    engine = make_engine(documents, with_model=no_model)
    result = ask(engine, "current timezone", threshold=0, explain=True)
    for hit in result.hits:
        assert hit.signals.keys() == {"fuzzy"}
        assert hit.explanation is not None
        assert hit.explanation.fused == pytest.approx(hit.signals["fuzzy"], abs=1e-6)
        assert [(s.signal, s.weight) for s in hit.explanation.shares] == [("fuzzy", 1.0)]


@pytest.mark.requirement("search:calibrated")
@pytest.mark.parametrize(
    "text",
    [
        "asdfghjkl qwertyuiop",
        "xyzzy plugh frobnicate",
        "the recipe for a chocolate cake",
        "who won the football match yesterday",
        "lorem ipsum dolor sit amet",
        "zzzz",
        "12345",
        "🚀🚀🚀",
    ],
)
def test_gibberish_and_what_is_off_topic_finds_nothing(engine: SearchEngine, text: str) -> None:
    result = ask(engine, text)
    assert result.hits == ()
    assert all(hit.score < 0.35 for hit in result.nearest)


# Reasons


@pytest.mark.requirement("search:reason")
@pytest.mark.parametrize(
    ("text", "alpha", "reason"),
    [
        ("rename a document", 0.7, "Semantic similarity"),
        ("rename a document", 0.0, "Fuzzy match"),
        ("rename a document in a folder", 0.7, "Semantic similarity (file operations)"),
        ("commit the changes", 0.7, "Semantic similarity (git operations)"),
        ("raed_file", 0.7, "Fuzzy match (name, 88% alike)"),
        ("read_file", 0.7, "Exact name"),
    ],
)
def test_the_reason_is_the_signal_that_contributed_most(
    make_engine: MakeEngine, documents: tuple[Document, ...], text: str, alpha: float, reason: str
) -> None:
    assert ask(make_engine(documents, alpha=alpha), text, threshold=0).hits[0].reason == reason


@pytest.mark.requirement("search:reason")
def test_the_reason_agrees_with_the_weighted_signals_of_every_hit(engine: SearchEngine) -> None:
    for hit in ask(engine, "find text in a repository", threshold=0, limit=100).hits:
        semantic = 0.7 * hit.signals["semantic"] >= 0.3 * hit.signals["fuzzy"]
        assert hit.reason.startswith("Semantic similarity" if semantic else "Fuzzy match")


# Threshold and limit


@pytest.mark.requirement("search:threshold")
def test_a_result_at_the_threshold_stays_and_one_above_it_goes(engine: SearchEngine) -> None:
    text = "list what is in a folder"
    for score in everything(engine, text).values():
        if 0 < score < 1:
            at = ask(engine, text, threshold=score, limit=100)
            above = ask(engine, text, threshold=min(1.0, score + 10**-DECIMALS), limit=100)
            assert min(hit.score for hit in at.hits) == score
            assert score not in [hit.score for hit in above.hits]


@pytest.mark.requirement("search:threshold")
def test_a_threshold_of_exactly_0_35_keeps_0_35(make_engine: MakeEngine) -> None:
    engine = make_engine([])
    assert engine.profile.threshold == 0.35
    assert ask(engine, "x").threshold == 0.35


@pytest.mark.requirement("search:limit")
def test_at_most_limit_results_three_when_nothing_is_said(engine: SearchEngine) -> None:
    every = ask(engine, "file", threshold=0, limit=100)
    assert ids(ask(engine, "file", threshold=0)) == ids(every)[:3]
    for limit in (1, 2, 5, 23, 24, 25, 100):
        result = ask(engine, "file", threshold=0, limit=limit)
        assert ids(result) == ids(every)[:limit]
        assert result.limit == limit


@pytest.mark.requirement("search:rank", "search:limit")
def test_the_best_of_many_are_the_first_of_all(
    make_engine: MakeEngine, no_model: LazyModel
) -> None:
    rng = random.Random(5)  # noqa: S311 - no secret
    terms = ["file", "read", "write", "folder", "list"]
    many = [
        Document(
            id=f"s__{n:03}", server="s", name="t", description=" ".join(rng.choices(terms, k=3))
        )
        for n in range(400)
    ]
    engine = make_engine(many, with_model=no_model)
    every = ask(engine, "read the folder", threshold=0, limit=100)
    order = sorted(every.hits, key=lambda hit: (-hit.score, hit.document.id))
    assert list(every.hits) == order
    for limit in (1, 3, 50):
        assert ids(ask(engine, "read the folder", threshold=0, limit=limit)) == ids(every)[:limit]


@pytest.mark.requirement("search:none")
def test_if_nothing_passes_the_three_best_are_named(engine: SearchEngine) -> None:
    result = ask(engine, "rename a document", threshold=0.99, limit=1)
    assert result.hits == ()
    best = [*everything(engine, "rename a document").items()][:NEAREST]
    assert [(hit.document.id, hit.score) for hit in result.nearest] == best
    assert result.nearest[0].reason.startswith("Semantic similarity")


@pytest.mark.requirement("search:none")
def test_if_few_pass_the_next_best_are_named(engine: SearchEngine) -> None:
    every = everything(engine, "rename a document")
    for passing in range(1, NEAREST + 2):
        threshold = [*every.values()][passing - 1]
        result = ask(engine, "rename a document", threshold=threshold, limit=10)
        assert ids(result) == [*every][:passing]
        assert [hit.document.id for hit in result.nearest] == [*every][passing:NEAREST]


@pytest.mark.requirement("search:none")
def test_where_nothing_scores_at_all_nothing_is_named(
    make_engine: MakeEngine, documents: tuple[Document, ...], no_model: LazyModel
) -> None:
    result = ask(make_engine(documents, with_model=no_model), "qqqq")
    assert (result.hits, result.nearest) == ((), ())


@pytest.mark.requirement("search:filter")
def test_a_search_can_be_kept_to_servers(engine: SearchEngine) -> None:
    both = ask(engine, "read", threshold=0, limit=100, servers=("git", "memory"))
    assert {hit.document.server for hit in both.hits} == {"git", "memory"}
    assert len(both.hits) == 13
    scores = everything(engine, "read")
    assert all(hit.score == scores[hit.document.id] for hit in both.hits)
    assert ask(engine, "read_file", servers=("git",), threshold=0).hits[0].score < 1
    assert ask(engine, "read", servers=("unheard",), threshold=0).hits == ()


# Degraded


GONE = "ollama://127.0.0.1:9/gone"
"""The model of a server that refuses connections."""


@pytest.mark.requirement("search:degraded")
def test_with_no_usable_model_every_answer_says_so_and_a_warning_is_logged_once(
    make_engine: MakeEngine, documents: tuple[Document, ...], caplog: pytest.LogCaptureFixture
) -> None:
    missing = LazyModel(lambda: load_model(GONE, "fuzzy", 1))
    engine = make_engine(documents, with_model=missing)
    for _ in range(3):
        result = ask(engine, "current timezone")
        assert ids(result)[0] == "time__get_current_time"
        [why] = result.degraded
        assert why.startswith("semantic: searching without meaning: ")
        assert "127.0.0.1:9" in why
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.requirement("search:degraded", "model:bundled")
def test_with_the_bundled_fallback_meaning_is_found_and_every_answer_says_why(
    make_engine: MakeEngine, documents: tuple[Document, ...], caplog: pytest.LogCaptureFixture
) -> None:
    missing = LazyModel(lambda: load_model(GONE, "bundled", 1))
    engine = make_engine(documents, with_model=missing)
    for _ in range(3):
        result = ask(engine, "download a web page")
        assert ids(result)[0] == "fetch__fetch"
        assert "semantic" in result.hits[0].signals
        [why] = result.degraded
        assert why.startswith("semantic: using the bundled model: ")
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.requirement("search:degraded")
def test_with_its_model_an_answer_is_not_degraded(engine: SearchEngine) -> None:
    assert ask(engine, "read a file").degraded == ()


@pytest.mark.requirement("search:degraded")
@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0])
def test_without_a_model_names_and_words_still_answer_whatever_alpha(
    make_engine: MakeEngine, documents: tuple[Document, ...], no_model: LazyModel, alpha: float
) -> None:
    engine = make_engine(documents, alpha=alpha, with_model=no_model)
    assert ids(ask(engine, "raed_file"))[0] == "filesystem__read_file"
    assert ids(ask(engine, "get the current time", threshold=0))[0] == "time__get_current_time"
    assert ask(engine, "get the current time", threshold=0).hits[0].score > 0.3


# Limits


@pytest.mark.requirement("search:limits")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"limit": 0}, "limit is 0; it must be from 1 to 100"),
        ({"limit": -1}, "limit is -1; it must be from 1 to 100"),
        ({"limit": 101}, "limit is 101; it must be from 1 to 100"),
        ({"limit": 10_000}, "limit is 10000; it must be from 1 to 100"),
        ({"threshold": 2}, "threshold is 2.0; it must be from 0 to 1"),
        ({"threshold": -1}, "threshold is -1.0; it must be from 0 to 1"),
        ({"threshold": float("nan")}, "threshold is nan; it must be from 0 to 1"),
        ({"threshold": float("inf")}, "threshold is inf; it must be from 0 to 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_value_out_of_range_is_refused_naming_value_and_range(
    engine: SearchEngine, change: dict[str, object], message: str
) -> None:
    with pytest.raises(RangeError) as caught:
        ask(engine, "read", **change)
    assert str(caught.value) == message


@pytest.mark.requirement("search:limits")
@pytest.mark.parametrize("text", ["", " ", "\t\r\n", "\u2003\u00a0"])
def test_an_empty_or_blank_question_is_refused(engine: SearchEngine, text: str) -> None:
    with pytest.raises(QueryError, match="the query is empty"):
        ask(engine, text)


@pytest.mark.parametrize("length", [MAX_QUERY_CHARS + 1, 1_000_000])
def test_a_question_that_is_too_long_is_refused_with_its_length(
    engine: SearchEngine, length: int
) -> None:
    with pytest.raises(QueryError) as caught:
        ask(engine, "x" * length)
    assert f"has {length} characters; at most {MAX_QUERY_CHARS}" in str(caught.value)
    assert len(str(caught.value)) < 200


def test_a_question_as_long_as_allowed_is_answered(engine: SearchEngine) -> None:
    text = ("read a file " * 1000)[:MAX_QUERY_CHARS]
    assert len(text) == MAX_QUERY_CHARS
    assert ask(engine, text, threshold=0).hits


def test_what_is_no_unicode_text_is_answered_too(engine: SearchEngine) -> None:
    assert ids(ask(engine, "read a \udce9 file", threshold=0))[0] == "filesystem__read_file"
    assert ask(engine, "\ud800", threshold=0).hits


@pytest.mark.requirement("search:rank")
@settings(max_examples=80)
@given(text=st.text(min_size=1).filter(lambda text: text.strip()), limit=st.integers(1, 100))
def test_any_question_is_answered_with_scores_in_0_to_1_in_order(
    engine: SearchEngine, text: str, limit: int
) -> None:
    result = ask(engine, text, threshold=0, limit=limit)
    keys = [(-hit.score, hit.document.id) for hit in result.hits]
    assert keys == sorted(keys)
    assert all(0 <= hit.score <= 1 for hit in result.hits)
    assert all(0 <= score <= 1 for hit in result.hits for score in hit.signals.values())
    assert len(result.hits) == min(limit, 24)
    json.dumps([hit.reason for hit in result.hits])


@pytest.mark.requirement("search:rank")
@settings(max_examples=10)
@given(order=st.permutations(range(24)))
def test_the_order_of_the_documents_changes_no_score_and_no_order(
    make_engine: MakeEngine, engine: SearchEngine, documents: tuple[Document, ...], order: list[int]
) -> None:
    shuffled = make_engine([documents[number] for number in order])
    for text in ("read a file", "commit my changes", "raed_file", "serch the graph"):
        expected, found = everything(engine, text), everything(shuffled, text)
        assert list(found.items()) == list(expected.items())


# Updating


def test_an_empty_engine_finds_nothing(make_engine: MakeEngine) -> None:
    result = ask(make_engine([]), "read a file", threshold=0)
    assert (result.hits, result.nearest) == ((), ())


@pytest.mark.requirement("upstream:live")
def test_an_update_replaces_what_can_be_found(
    make_engine: MakeEngine, documents: tuple[Document, ...]
) -> None:
    engine = make_engine(documents[:10])
    assert engine.indexed == 10
    engine.update(documents[10:])
    assert engine.indexed == 14
    assert engine.waiting == 0
    assert not everything(engine, "read").keys() & {d.id for d in documents[:10]}


@pytest.mark.requirement("catalogue:progressive")
def test_what_is_new_is_found_by_its_words_before_it_is_embedded(
    model: LazyModel, documents: tuple[Document, ...]
) -> None:
    semantic = SemanticSignal(model, lambda: None)
    engine = SearchEngine(search_profile(0.7, 3, 0.35), semantic=semantic)
    many = [
        *documents,
        *(
            Document(id=f"z__{n:03}", server="z", name=f"z{n}", description="Zeta.", digest=str(n))
            for n in range(100)
        ),
    ]
    seen: list[tuple[int, list[str], tuple[str, ...]]] = []

    def look() -> bool:
        result = ask(engine, "z__099", threshold=0)
        seen.append((engine.waiting, ids(result)[:1], result.degraded))
        return False

    engine.update(many, look)
    assert [waiting for waiting, _, _ in seen] == [60, 0]
    assert all(first == ["z__099"] for _, first, _ in seen)
    assert seen[0][2] == ("semantic: 60 of 124 tools are not embedded yet",)
    assert seen[1][2] == ()


@pytest.mark.requirement("upstream:live")
def test_a_superseded_update_ends_early_and_keeps_what_it_did(model: LazyModel) -> None:
    semantic = SemanticSignal(model, lambda: None)
    engine = SearchEngine(search_profile(0.7, 3, 0.35), semantic=semantic)
    many = [
        Document(id=f"z__{n:03}", server="z", name=f"z{n}", description="Zeta.", digest=str(n))
        for n in range(100)
    ]
    engine.update(many, lambda: True)
    assert semantic.counters.documents_embedded == 64
    engine.update(many)
    assert semantic.counters.documents_embedded == 100
    assert engine.waiting == 0


def test_searches_while_updating_see_one_corpus_or_the_other(
    make_engine: MakeEngine, documents: tuple[Document, ...]
) -> None:
    one, other = documents[:12], documents[12:]
    engine = make_engine(one)
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            engine.update(other)
            engine.update(one)

    writer = threading.Thread(target=flip)
    writer.start()
    try:
        wholes = ({d.id for d in one}, {d.id for d in other})
        seen = [everything(engine, "read a file").keys() for _ in range(100)]
    finally:
        stop.set()
        writer.join()
    assert all(found in wholes for found in seen)


# Explanations


def test_an_explanation_says_what_each_signal_found(engine: SearchEngine) -> None:
    hit = ask(engine, "which fiels match a pattern", explain=True).hits[0]
    assert hit.explanation is not None
    semantic, fuzzy = hit.explanation.shares
    assert (semantic.signal, semantic.weight) == ("semantic", 0.7)
    assert semantic.evidence[0].startswith("cosine 0.")
    assert semantic.evidence[1].startswith("nearest is its ")
    assert (fuzzy.signal, fuzzy.weight) == ("fuzzy", 0.3)
    assert any(text.startswith("fiels → files ") for text in fuzzy.evidence)
    assert sum(int(text.rsplit(" ", 1)[1][:-1]) for text in fuzzy.evidence) in range(98, 103)


def test_without_being_asked_nothing_is_explained(engine: SearchEngine) -> None:
    result = ask(engine, "read a file")
    assert all(hit.explanation is None for hit in result.hits)
    assert result.why is None


@pytest.mark.parametrize(
    ("why", "more", "verdict"),
    [
        ("git__git_commit", {}, "it is shown, as number 1"),
        ("git_commit", {"servers": ("time",)}, "not among the servers that were asked for"),
        ("git:git_add", {"limit": 1, "threshold": 0}, "and 1 are shown; a limit"),
        ("get current time", {}, "is below the threshold 0.35; a threshold of 0"),
    ],
)
def test_a_tool_that_is_asked_after_says_where_it_ended_up(
    engine: SearchEngine, why: str, more: dict[str, object], verdict: str
) -> None:
    found = ask(engine, "commit my changes to git", why=why, **more).why
    assert found is not None
    assert verdict in found.verdict


def test_the_advice_about_a_missing_tool_is_true(engine: SearchEngine) -> None:
    text = "commit my changes to git"
    for tool, score in everything(engine, text).items():
        found = ask(engine, text, why=tool).why
        assert found is not None
        assert found.hit is not None
        assert found.hit.score == score
        assert found.rank is not None
        every = ask(engine, text, threshold=0, limit=found.rank)
        assert ids(every)[-1] == tool
        if "--threshold" in found.verdict:
            lowered = float(found.verdict.split("--threshold ")[1].split()[0])
            assert tool in ids(ask(engine, text, threshold=lowered, limit=100))


def test_a_tool_that_is_not_there_has_no_whereabouts(engine: SearchEngine) -> None:
    assert ask(engine, "read a file", why="nonesuch").why is None


# Several things at once


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "search for files named invoice and convert the time to Tokyo",
            {"filesystem__search_files", "time__convert_time"},
        ),
        (
            "Create a new branch. Fetch the page at example.com.",
            {"git__git_create_branch", "fetch__fetch"},
        ),
        (
            "read the file notes.txt, then add an observation to the knowledge graph",
            {"filesystem__read_file", "memory__add_observations"},
        ),
    ],
)
def test_each_part_of_a_question_wins_a_place(
    engine: SearchEngine, text: str, expected: set[str]
) -> None:
    assert expected <= set(ids(ask(engine, text)))


def test_the_reason_names_the_part_that_speaks_for_a_tool(engine: SearchEngine) -> None:
    text = "Create a new branch. Fetch the page at example.com."
    reasons = {hit.document.id: hit.reason for hit in ask(engine, text, explain=True).hits}
    assert reasons["git__git_create_branch"].endswith("for “Create a new branch.”")
    hit = next(h for h in ask(engine, text, explain=True).hits if h.document.id == "fetch__fetch")
    assert hit.explanation is not None
    [part] = [step for step in hit.explanation.steps if step.name == "part"]
    assert part.evidence.startswith("“Fetch the page at example.com.” scores 0.")


@pytest.mark.parametrize(
    "text", ["прочитать файл", "读取文件", "ファイルを読む", "📧 отправить 邮件", "قراءة ملف"]
)
def test_any_script_is_searched_and_what_shares_its_words_is_found(
    make_engine: MakeEngine, documents: tuple[Document, ...], text: str
) -> None:
    mine = Document(
        id="x__t", server="x", name="t", description=f"{text}. Something else.", digest="1"
    )
    assert ids(ask(make_engine([*documents, mine]), text))[0] == "x__t"
    found = ask(make_engine(documents), text)
    assert found.hits or all(hit.score < 0.35 for hit in found.nearest)


# Sense


@pytest.mark.parametrize("text", ["sdkjfh skdjfh skjdfh", "lkjhgfdsa mnbvcxz", "7777777 99999"])
def test_what_no_signal_understands_scores_nothing(engine: SearchEngine, text: str) -> None:
    found = ask(engine, text, threshold=0, explain=True, limit=1)
    assert found.hits[0].score == 0
    assert found.hits[0].explanation is not None
    assert [step.name for step in found.hits[0].explanation.steps] == ["word match", "sense"]


def test_a_name_that_nobody_knows_takes_nothing_from_a_question(engine: SearchEngine) -> None:
    result = ask(engine, "read the file xqzzvbn", explain=True)
    assert ids(result)[0] == "filesystem__read_file"
    assert result.hits[0].explanation is not None
    assert "sense" not in [step.name for step in result.hits[0].explanation.steps]


@pytest.mark.parametrize("alpha", [0.0, 0.4, 1.0])
def test_a_request_weighs_the_signals_as_an_engine_of_that_weight_does(
    make_engine: MakeEngine, documents: tuple[Document, ...], engine: SearchEngine, alpha: float
) -> None:
    weighed = make_engine(documents, alpha=alpha)
    for text in ("commit my changes", "read_fiel", "what time is it"):
        own = ask(weighed, text, threshold=0, limit=100)
        assert ask(engine, text, threshold=0, limit=100, alpha=alpha).hits == own.hits


def test_a_weight_out_of_range_is_refused(engine: SearchEngine) -> None:
    with pytest.raises(RangeError, match="alpha"):
        ask(engine, "file", alpha=1.5)


def test_evidence_is_looked_for_where_it_is_asked_for(engine: SearchEngine) -> None:
    result = ask(engine, "commit my changes", threshold=0, explain=True, evidence=())
    wanted = ids(result)[1]
    every = ask(engine, "commit my changes", threshold=0, explain=True, evidence=(wanted,))
    full = ask(engine, "commit my changes", threshold=0, explain=True)
    for bare, hit, whole in zip(result.hits, every.hits, full.hits, strict=True):
        assert bare.explanation
        assert hit.explanation
        assert bare.explanation.steps == hit.explanation.steps
        assert not any(share.evidence for share in bare.explanation.shares)
        assert (hit.explanation == whole.explanation) is (hit.document.id == wanted)
