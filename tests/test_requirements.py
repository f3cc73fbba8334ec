"""Every requirement is proved by a test that carries it, or openly not."""

import ast
from pathlib import Path

import pytest

from tests.requirements import REQUIREMENTS, TESTS, functions_in, proofs


def exists(node_id: str) -> bool:
    """Whether pytest would find it: a test of a class is named with its class."""
    file, *names = node_id.split("::")
    path = TESTS.parent / file
    if not path.is_file():
        return False
    return tuple(names) in {each for each, _ in functions_in(ast.parse(path.read_text("utf-8")))}


@pytest.mark.parametrize("identifier", REQUIREMENTS)
def test_a_requirement_is_proved_by_a_test_or_openly_not(identifier: str) -> None:
    assert proofs().get(identifier) or REQUIREMENTS[identifier].open


def test_a_test_carries_no_requirement_that_is_not_listed() -> None:
    assert {name: nodes for name, nodes in proofs().items() if name not in REQUIREMENTS} == {}


def test_the_test_of_a_class_is_named_with_its_class() -> None:
    file, test = "tests/graph/test_learning.py", "test_calls_become_steps_of_their_session"
    assert exists(f"{file}::TestLearning::{test}")
    assert not exists(f"{file}::{test}")
    assert not exists("tests/test_file_that_was_deleted.py::test_anything")


def test_a_test_that_is_deleted_is_missed(request: pytest.FixtureRequest) -> None:
    here = f"tests/{Path(__file__).name}"
    assert exists(f"{here}::{request.node.name}")
    assert not exists(f"{here}::test_that_was_deleted")
