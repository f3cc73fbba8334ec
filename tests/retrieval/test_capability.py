from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from toolscript.retrieval.base import Corpus, Query, Rows
from toolscript.retrieval.capability import (
    ANSWERED,
    BOOST,
    DEDICATED,
    Capability,
    CapabilityIndex,
    CapabilityReader,
    load_table,
)
from toolscript.retrieval.lexical.analyzer import Stemmer
from toolscript.types import Document

SHELL = Document(id="sh__run_command", server="sh", name="run_command", description="Run it.")
COMMIT = Document(id="git__commit", server="git", name="commit", description="Record changes.")
READ = Document(id="fs__read_file", server="fs", name="read_file", description="Read a file.")


def index(*documents: Document) -> CapabilityIndex:
    return CapabilityIndex(Corpus(documents), CapabilityReader(Stemmer()))


@dataclass(frozen=True)
class Boosted:
    """Scores after inference, and for each row raised the capability."""

    scores: NDArray[np.floating]
    inferred: dict[int, Capability]


def boost(of: CapabilityIndex, text: str, *scores: float, reachable: Rows | None = None) -> Boosted:
    rows, before = np.arange(len(scores)) if reachable is None else reachable, array(*scores)
    inferred = of.infer_shell(Query(text), before, rows)
    if inferred is None:
        return Boosted(before, {})
    capability, raised = inferred
    return Boosted(raised, dict.fromkeys(np.flatnonzero(raised > before).tolist(), capability))


def array(*scores: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(scores, dtype=np.float32)


@pytest.mark.requirement("search:intent")
def test_the_table_is_complete_and_no_capability_is_in_it_twice() -> None:
    table = load_table(Stemmer())
    names = [c.name for c in table.capabilities]
    assert len(names) >= 15
    assert len(set(names)) == len(names)
    assert len({c.short for c in table.capabilities}) == len(names)
    for capability in table.capabilities:
        assert capability.intents
        assert capability.tools
        assert all(capability.intents), capability.name
        assert all(capability.tools), capability.name
    assert table.executor_names
    assert all(table.executor_names + table.executor_descriptions)


@pytest.mark.requirement("search:intent")
@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("commit my changes to git", "git ops"),
        ("committing the changes", "git ops"),
        ("rename a file", "file ops"),
        ("install npm packages", "packages"),
        ("which processes are running", "processes"),
        ("build a docker image", "containers"),
        ("what is the current time", "time"),
        ("send an email to ana", "messages"),
    ],
)
def test_a_question_is_read_for_what_it_wants(text: str, short: str) -> None:
    assert short in [c.short for c in index().intents(Query(text))]


@pytest.mark.requirement("search:intent")
def test_a_question_that_wants_nothing_of_the_table_wants_nothing() -> None:
    assert index().intents(Query("tell me a joke")) == []


THINK = Document(
    id="bio__think", server="bio", name="think", description="Thinks step by step; may branch."
)


@pytest.mark.requirement("search:reason")
@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("commit my work to git", ["git operations", "", "", "git operations"]),
        ("read files", ["", "file operations", "", ""]),
        ("run this command", ["", "", "process management", ""]),
        ("think about a hard problem", ["", "", "", ""]),
    ],
)
def test_a8_a_tool_is_labelled_by_what_the_question_asks_of_it(
    text: str, labels: list[str]
) -> None:
    """search:reason: a tool for thinking that can branch is found by a question about thinking."""
    documents = (COMMIT, READ, SHELL, THINK)
    of, rows = index(*documents), Corpus(documents).rows
    assert [of.label(rows[each.id], Query(text)) for each in documents] == labels


@pytest.mark.requirement("search:intent")
def test_a_shell_is_raised_part_of_the_way_to_1_by_hand() -> None:
    boosted = boost(index(SHELL), "commit my changes to git", 0.2)
    np.testing.assert_allclose(boosted.scores, [0.2 + 0.45 * 0.8], atol=1e-6)
    assert BOOST == 0.45
    assert {row: c.short for row, c in boosted.inferred.items()} == {0: "git ops"}


def test_of_several_capabilities_the_first_of_the_table_is_inferred() -> None:
    of = index(SHELL)
    question = "docker and git"
    assert [c.short for c in of.intents(Query(question))] == ["git ops", "containers"]
    boosted = boost(of, question, 0.2)
    np.testing.assert_allclose(boosted.scores, [0.56], atol=1e-6)
    assert {row: c.short for row, c in boosted.inferred.items()} == {0: "git ops"}
    assert boost(of, question, 1.0).inferred == {}


def test_where_a_dedicated_tool_scores_well_nothing_is_inferred() -> None:
    of = index(COMMIT, SHELL)
    for score, raised in ((DEDICATED, False), (DEDICATED - 0.01, True)):
        boosted = boost(of, "commit my changes to git", score, 0.2)
        assert bool(boosted.inferred) is raised
        assert (boosted.scores[1] > 0.2) is np.bool_(raised)
        assert boosted.scores[0] == np.float32(score)


@pytest.mark.requirement("search:intent")
def test_where_any_tool_answers_surely_nothing_is_inferred() -> None:
    """search:intent: whatever it is for; of shells, one that is sure does not keep the others."""
    of = index(READ, SHELL)
    for score, raised in ((ANSWERED, False), (ANSWERED - 0.01, True)):
        boosted = boost(of, "commit my changes to git", score, 0.2)
        assert bool(boosted.inferred) is raised
    assert boost(index(SHELL), "commit my changes to git", ANSWERED).inferred


@pytest.mark.requirement("search:intent")
def test_a1_what_is_out_of_reach_keeps_nothing_from_being_inferred() -> None:
    """search:intent: not by a dedicated tool, nor by one that is sure; nor is it raised."""
    text = "commit my changes to git"
    for other in (COMMIT, READ):
        of = index(other, SHELL)
        boosted = boost(of, text, 0.9, 0.2, reachable=np.array([1]))
        assert list(boosted.inferred) == [1]
        assert boost(of, text, 0.9, 0.2).inferred == {}
        hidden = boost(of, text, 0.1, 0.2, reachable=np.array([0]))
        assert (hidden.inferred, hidden.scores.tolist()) == ({}, array(0.1, 0.2).tolist())


def test_for_what_a_command_line_cannot_do_nothing_is_raised() -> None:
    boosted = boost(index(SHELL), "add it to my calendar", 0.2)
    assert boosted.scores.tolist() == array(0.2).tolist()
    assert boosted.inferred == {}


def test_without_a_shell_nothing_is_raised() -> None:
    boosted = boost(index(COMMIT, READ), "install npm packages", 0.1, 0.2)
    assert boosted.scores.tolist() == array(0.1, 0.2).tolist()


@pytest.mark.parametrize(
    ("name", "description", "executes"),
    [
        ("run_command", "", True),
        ("executeCommand", "", True),
        ("bash", "", True),
        ("powershell", "", True),
        ("start_process", "", True),
        ("go", "Executes a shell command on the host.", True),
        ("run_query", "Runs a query.", False),
        ("kill", "Kill it. Use run_command to run a shell command.", False),
        ("command_history", "", False),
        ("read_file", "Read a file.", False),
    ],
)
def test_tools_that_run_commands_are_known_by_name_or_description(
    name: str, description: str, *, executes: bool
) -> None:
    tool = Document(id=f"s__{name}", server="s", name=name, description=description)
    boosted = boost(index(tool), "git rebase", 0.1)
    assert bool(boosted.inferred) is executes


@given(
    scores=st.lists(st.floats(0, 1, width=32), min_size=4, max_size=4),
    text=st.sampled_from(["commit my changes to git", "rename a file", "npm and docker", "hello"]),
)
def test_a_score_is_only_ever_raised_and_stays_within_1(scores: list[float], text: str) -> None:
    other = Document(id="zsh__bash", server="zsh", name="bash")
    before = array(*scores)
    boosted = boost(index(COMMIT, READ, SHELL, other), text, *scores)
    assert (boosted.scores >= before).all()
    assert (boosted.scores <= 1).all()
    changed = set(np.flatnonzero(boosted.scores != before).tolist())
    assert changed == set(boosted.inferred)
    assert before.tolist() == array(*scores).tolist()
