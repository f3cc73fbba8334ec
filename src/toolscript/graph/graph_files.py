"""Reads files that teach the graph: workflows, dependencies, logs of calls.

One YAML or JSON document, an object with any of

    workflows:
      - steps: [git__git_diff, files__write_file]
    dependencies: [[files__move_file, files__list_directory]]
    sequences: [[git__git_status, {tool: git__git_commit, ok: false}]]

A tool is named by its id, ``server__tool`` or ``server:tool``.
"""

from itertools import chain, pairwise
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from toolscript.errors import InputError
from toolscript.graph.base import Template
from toolscript.types import SEPARATOR

MAX_CHARS = 16_000_000
MAX_ROWS = 200_000
_T = TypeVar("_T")
_Rows: TypeAlias = Annotated[list[_T], msgspec.Meta(max_length=MAX_ROWS)]
_Pair: TypeAlias = Annotated[list[Any], msgspec.Meta(min_length=2)]
"""The first two entries are tools; others are comments."""


class _Workflow(msgspec.Struct):
    steps: _Rows[str] = []


class _LoggedCall(msgspec.Struct):
    tool: str
    ok: Any = True


class _Document(msgspec.Struct):
    workflows: _Rows[_Workflow] = []
    dependencies: _Rows[_Pair] = []
    sequences: _Rows[_Rows[str | _LoggedCall]] = []


class ImportedGraph(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a file."""

    templates: tuple[Template, ...] = ()
    dependencies: tuple[tuple[str, str], ...] = ()
    sequences: tuple[tuple[tuple[str, bool], ...], ...] = ()
    """Each a list of calls: a tool, and whether it succeeded."""

    @property
    def tools(self) -> set[str]:
        """The ids of all tools that are named."""
        pairs = (*(pair for each in self.templates for pair in each.pairs), *self.dependencies)
        called = (tool for sequence in self.sequences for tool, _ in sequence)
        return {*chain.from_iterable(pairs), *called}


def read(text: str) -> ImportedGraph:
    """Returns a document's contents; raises `InputError` naming the place that is wrong."""
    return imported(parse(text))


def parse(text: str) -> Any:
    """Returns a document as plain objects; raises `InputError` if it is neither JSON nor YAML."""
    if len(text) > MAX_CHARS:
        raise InputError(f"the file has {len(text)} characters; at most {MAX_CHARS} are read")
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        from toolscript.text.plain_yaml import parse  # noqa: PLC0415 - not needed for JSON

        try:
            return parse(text)
        except ValueError as error:
            raise InputError(f"the file is neither JSON nor YAML: {str(error)[:200]}") from None


def imported(value: Any) -> ImportedGraph:
    """Returns a parsed document's contents; raises `InputError` naming the place that is wrong."""
    try:
        document = msgspec.convert(value, _Document)
    except msgspec.ValidationError as error:
        raise InputError(f"the file cannot be used: {error}") from None
    contents = ImportedGraph(
        templates=tuple(
            _template(workflow, f"workflows[{at}]")
            for at, workflow in enumerate(document.workflows)
        ),
        dependencies=tuple(
            _pair(pair, f"dependencies[{at}]") for at, pair in enumerate(document.dependencies)
        ),
        sequences=tuple(
            tuple(_call(call, f"sequences[{at}]") for call in sequence)
            for at, sequence in enumerate(document.sequences)
        ),
    )
    if contents == ImportedGraph():
        raise InputError("there is nothing in it; expected workflows, dependencies or sequences")
    return contents


def _template(workflow: _Workflow, where: str) -> Template:
    pairs = tuple(pairwise(_tool(step, f"{where}.steps") for step in workflow.steps))
    if not pairs:
        raise InputError(f"{where} leads nowhere; expected steps, a list of two tools or more")
    return Template(pairs=pairs)


def _call(call: str | _LoggedCall, where: str) -> tuple[str, bool]:
    if isinstance(call, str):
        return _tool(call, where), True
    return _tool(call.tool, where), _is_true(call.ok)


def _is_true(value: Any) -> bool:
    """Whether a value means success: a type in JSON, a word in YAML."""
    return bool(value) and str(value).casefold() not in {"false", "no", "off", "n", "0", "null"}


def _pair(pair: list[Any], where: str) -> tuple[str, str]:
    return _tool(pair[0], where), _tool(pair[1], where)


def _tool(value: Any, where: str) -> str:
    name = value.strip() if isinstance(value, str) else ""
    separator = SEPARATOR if SEPARATOR in name else ":"
    server, _, tool = name.partition(separator)
    if not (server and tool):
        raise InputError(f"{where}: {str(value)[:60]!r} is no tool; expected server{SEPARATOR}tool")
    return f"{server}{SEPARATOR}{tool}"
