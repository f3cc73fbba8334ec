"""The names that users import from ``toolscript``, and what importing the package costs."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import toolscript

NAMES = """
    App Config Document Encoder Executor Hit LazyModel LexicalSignal Llm Outcome
    SearchEngine SearchRequest SearchResult SemanticSignal Settings SqliteVectorCache ToolSpec
    Toolbox ToolscriptError VectorPair Wiring __version__ application errors load_config load_model
    load_settings search_profile
""".split()  # noqa: SIM905 - a list of words reads best as words


def public_functions() -> list[Any]:
    """The functions and methods of the face that users call."""
    found: list[Any] = []
    for name in NAMES:
        value = getattr(toolscript, name)
        if inspect.isfunction(value):
            found.append(value)
        elif inspect.isclass(value):
            members = vars(value).items()
            found += [f for n, f in members if inspect.isfunction(f) and not n.startswith("_")]
    return found


def test_the_public_names_are_these() -> None:
    assert sorted(toolscript.__all__) == sorted(NAMES) == sorted(dir(toolscript))


@pytest.mark.parametrize("name", NAMES)
def test_every_name_can_be_imported_and_is_described(name: str) -> None:
    value = getattr(toolscript, name)
    assert isinstance(value, str) or inspect.getdoc(value)


@pytest.mark.parametrize("function", public_functions(), ids=lambda f: f.__qualname__)
def test_every_function_is_described(function: Any) -> None:
    assert inspect.getdoc(function)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = toolscript.nothing  # pyright: ignore[reportUnknownVariableType, reportAttributeAccessIssue]


def test_type_checkers_see_what_is_imported_at_run_time() -> None:
    source = Path(inspect.getfile(toolscript)).read_text("utf-8")
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    seen = {alias.name: node.module for node in imports for alias in node.names}
    for name in set(NAMES) - {"__version__", "errors", "ToolscriptError"}:
        value = getattr(toolscript, name)
        assert f"{value.__module__}.{value.__name__}" == f"{seen[name]}.{name}"


def test_importing_the_package_imports_nothing_heavy() -> None:
    program = "import sys, toolscript; print(*sorted(m for m in sys.modules if 'toolscript' in m))"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    assert done.stdout.split() == ["toolscript", "toolscript.errors"]


DESCRIBED = ("application", "load_config", "load_model", "load_settings", "search_profile")


@pytest.mark.parametrize("name", DESCRIBED)
def test_every_argument_of_a_function_is_described(name: str) -> None:
    function = getattr(toolscript, name)
    description = (inspect.getdoc(function) or "").replace("α", "alpha").casefold()
    missing = [each for each in inspect.signature(function).parameters if each not in description]
    assert not missing
