"""The manifest and the tests agree, in both directions."""

import ast
import re
from pathlib import Path

import pytest

from tests.requirements import REQUIREMENTS, Requirement

TESTS = Path(__file__).parent
KINDS = sorted({identifier.split(":")[0] for identifier in REQUIREMENTS})
MENTION = re.compile(rf"(?<![\w/`:])(?:{'|'.join(KINDS)}):[a-z][a-z_-]*[a-z](?![\w-])")


def functions(path: Path) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {node.name: node for node in found}


def exists(node_id: str) -> bool:
    """Whether pytest would find it: a test of a class is named with its class."""
    file, *names = node_id.split("::")
    path = TESTS.parent / file
    inside: ast.AST | None = ast.parse(path.read_text("utf-8")) if path.is_file() else None
    for name in names:
        body: list[ast.stmt] = getattr(inside, "body", [])
        inside = next((each for each in body if getattr(each, "name", "") == name), None)
    return inside is not None


@pytest.mark.parametrize("identifier", REQUIREMENTS)
def test_a_requirement_is_proved_by_tests_that_exist_or_openly_not(identifier: str) -> None:
    requirement = REQUIREMENTS[identifier]
    assert [node for node in requirement.proved_by if not exists(node)] == []
    assert bool(requirement.open) or bool(requirement.proved_by)


def test_a_test_that_is_deleted_is_missed() -> None:
    assert exists("tests/test_requirements.py::test_a_test_that_is_deleted_is_missed")
    assert not exists("tests/test_requirements.py::test_that_was_deleted")
    assert not exists("tests/test_file_that_was_deleted.py::test_anything")


def test_a12_a_test_of_a_class_is_named_with_its_class() -> None:
    file, test = "tests/graph/test_learning.py", "test_a_graph_is_the_same_when_it_is_read_again"
    assert exists(f"{file}::TestStore::{test}")
    assert not exists(f"{file}::{test}")


def test_a_test_that_names_a_requirement_names_one_that_is_in_the_manifest() -> None:
    unknown = [
        f"{path.name}::{name}: {mention}"
        for path in sorted(TESTS.rglob("test_*.py"))
        for name, node in functions(path).items()
        for mention in MENTION.findall(ast.get_docstring(node) or "")
        if mention not in REQUIREMENTS
    ]
    assert unknown == []


def test_an_empty_entry_is_no_proof() -> None:
    with pytest.raises(ValueError, match="neither"):
        Requirement("nothing")
