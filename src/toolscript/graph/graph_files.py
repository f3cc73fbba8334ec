"""Reads JSON that teaches the graph: workflows, dependencies, logs of calls.

An object with any of

    {"workflows": [{"steps": ["git__git_diff", "files__write_file"]}],
     "dependencies": [["files__move_file", "files__list_directory"]],
     "sequences": [[{"tool": "git__git_status"}, {"tool": "git__git_commit", "ok": false}]]}
"""

from itertools import chain, pairwise
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from toolscript.errors import InputError
from toolscript.graph.base import Template

MAX_CHARS = 16_000_000
_T = TypeVar("_T")
_Rows: TypeAlias = Annotated[tuple[_T, ...], msgspec.Meta(max_length=200_000)]
_Tool: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[^\0]+__[^\0]+$")]


class Workflow(msgspec.Struct, frozen=True):
    """Tools that are used one after the other."""

    steps: Annotated[tuple[_Tool, ...], msgspec.Meta(min_length=2, max_length=200_000)]


class LoggedCall(msgspec.Struct, frozen=True):
    """A call of a log; its arguments and its result are not read."""

    tool: _Tool
    ok: bool = True


class ImportedGraph(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a file."""

    workflows: _Rows[Workflow] = ()
    dependencies: _Rows[tuple[_Tool, _Tool]] = ()
    sequences: _Rows[_Rows[LoggedCall]] = ()

    @property
    def templates(self) -> tuple[Template, ...]:
        """The workflows, as pairs of tools."""
        return tuple(Template(pairs=tuple(pairwise(each.steps))) for each in self.workflows)

    @property
    def tools(self) -> set[str]:
        """The ids of all tools that are named."""
        steps = chain.from_iterable(each.steps for each in self.workflows)
        called = (call.tool for call in chain.from_iterable(self.sequences))
        return {*steps, *chain.from_iterable(self.dependencies), *called}


def read(text: str) -> ImportedGraph:
    """Returns a file's contents; raises `InputError` naming the place that is wrong."""
    if len(text) > MAX_CHARS:
        raise InputError(f"the file has {len(text)} characters; at most {MAX_CHARS} are read")
    try:
        return imported(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"the file is not JSON: {error}") from None


def imported(value: Any) -> ImportedGraph:
    """Returns a document's contents; raises `InputError` naming the place that is wrong."""
    try:
        contents = msgspec.convert(value, ImportedGraph)
    except msgspec.ValidationError as error:
        raise InputError(f"the file cannot be used: {error}") from None
    if contents == ImportedGraph():
        raise InputError("there is nothing in it; expected workflows, dependencies or sequences")
    return contents
