"""The list of deliberate breaks fits the sources; and what is made of one, in small."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.mutants.listed import LIST, Mutant, load, noticing_tests
from tests.mutants.workplace import NOTICED, SURVIVED, Workplace
from tests.test_requirements import exists

MUTANTS = load()
BREAK = Mutant(
    id="graph:alpha",
    file="graph/base.py",
    old="edges < 50",
    new="edges < 60",
    tests=("tests/graph/test_tool_graph.py::test_alpha_follows_the_number_of_edges",),
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: f"{each.id} in {each.file}")
def test_a_break_still_applies(mutant: Mutant) -> None:
    """Where the line has changed, the break has to be made in the new one."""
    assert mutant.problem() == "", f"{LIST.name} is out of date: {mutant.id}"
    assert mutant.old != mutant.new
    assert [test for test in noticing_tests(mutant) if not exists(test)] == []


def test_no_break_is_listed_twice() -> None:
    made = [(each.file, each.old, each.new) for each in MUTANTS]
    assert sorted(made) == sorted(set(made))
    assert len(made) >= 211


def test_a_break_that_cannot_be_made_says_why() -> None:
    def problem(**changed: Any) -> str:
        return replace(BREAK, tests=(), **changed).problem()

    assert problem() == ""
    assert problem(old="fifty").endswith("has 'fifty' 0 times, not once")
    assert problem(file="gone.py") == f"{Path('src/toolscript/gone.py')} is not there"
    assert problem(id="Z9") == "no test is known for Z9"


def test_the_noticing_tests_a_finding_are_those_named_after_it() -> None:
    [test] = noticing_tests(replace(BREAK, id="A8", tests=()))
    assert test.startswith("tests/retrieval/test_capability.py::test_a8_")


@pytest.mark.long  # it copies the repository
def test_a_break_is_noticed_or_survives_and_is_taken_back(tmp_path: Path) -> None:
    """By tests of a copy, which leaves the sources here alone."""
    place = Workplace(tmp_path)
    before = (place.root / BREAK.path).read_text("utf-8")
    noticed = place.judge(BREAK)
    assert noticed.verdict == NOTICED, noticed.output
    assert noticed.by.startswith(BREAK.tests[0])
    harmless = replace(BREAK, new="edges <= 49")
    assert place.judge(harmless).verdict == SURVIVED
    unknown = replace(BREAK, tests=("tests/gone.py",))
    assert place.judge(unknown).verdict == "exit status 4"
    assert (place.root / BREAK.path).read_text("utf-8") == before
