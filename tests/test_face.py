"""The names that users import from ``toolscript``, and what importing the package costs."""

import ast
import inspect
import itertools
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import toolscript
from toolscript import testing

NAMES = """
    App Config Document Encoder Executor Hit LazyModel LexicalSignal Llm OfferedTool
    Outcome RankedTool Ranker SearchEngine SearchRequest SearchResult SemanticSignal Settings
    SqliteVectorCache ToolSpec Toolbox ToolscriptError VectorPair Wiring __version__ application
    define_tool errors load_config load_model load_settings search_profile
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
        assert getattr(toolscript, name) is getattr(import_module(str(seen[name])), name)


def test_importing_the_package_imports_nothing_heavy() -> None:
    program = "import sys, toolscript; print(*sorted(m for m in sys.modules if 'toolscript' in m))"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    assert done.stdout.split() == ["toolscript", "toolscript.errors", "toolscript.version"]


def public_callables() -> Iterator[tuple[str, str, Any]]:
    """Each public callable of the face: its name, what documents it, and itself."""
    for module in (toolscript, testing):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value):
                yield name, inspect.getdoc(value) or "", value
            if not inspect.isclass(value):
                continue
            described = f"{inspect.getdoc(value)}\n{' '.join(described_fields(value))}"
            yield name, described, value
            for each, member in vars(value).items():
                method = getattr(member, "__func__", member)
                if inspect.isfunction(method) and not each.startswith("_"):
                    yield f"{name}.{each}", f"{described}\n{inspect.getdoc(method)}", method


def described_fields(value: type) -> Iterator[str]:
    """The fields of a class, each with what follows, that have a docstring or a help text."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]
    assert isinstance(tree, ast.ClassDef)
    for statement, following in itertools.pairwise([*tree.body, ast.Pass()]):
        if isinstance(statement, ast.AnnAssign) and (
            isinstance(following, ast.Expr) or "_setting(" in ast.unparse(statement)
        ):
            yield f"{ast.unparse(statement.target)}: {ast.unparse(following)}"


@pytest.mark.parametrize(("name", "description", "function"), [*public_callables()])
def test_every_parameter_is_described(name: str, description: str, function: Any) -> None:
    """Its docstring, or its class's, names each; a field of a class may have its own docstring."""
    if getattr(function, "_is_protocol", False) or function is toolscript.ToolscriptError:
        return
    known = {*re.findall(r"\w+", description.replace("α", "alpha")), "self", "cls"}
    missing = [each for each in inspect.signature(function).parameters if each not in known]
    assert not missing, f"{name} does not describe {missing}"
