"""Ways of working and logs, read from files: templates, dependencies, sequences of calls.

One YAML or JSON document, a list of templates or an object with any of

    workflows:                           # or templates
      - name: review
        steps: [git__git_diff, files__write_file]
      - name: by pairs
        edges: [[git__git_diff, files__write_file]]
      - name: by tasks, as a graph of them
        tasks: [{id: a, tool: git__git_diff}, {id: b, tool: files__write_file, depends_on: [a]}]
    dependencies: [[files__move_file, files__list_directory]]
    sequences: [[git__git_status, git__git_commit]]

A tool is named by its id, ``server__tool`` or ``server:tool``.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast

import msgspec

from toolscript.errors import InputError
from toolscript.graph.base import Template
from toolscript.types import SEPARATOR

MAX_CHARS = 16_000_000
MAX_ROWS = 200_000


class GraphImport(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says."""

    templates: tuple[Template, ...] = ()
    dependencies: tuple[tuple[str, str], ...] = ()
    sequences: tuple[tuple[tuple[str, bool], ...], ...] = ()
    """Each a list of calls: a tool, and whether it succeeded."""


def read(text: str) -> GraphImport:
    """What a document says; raises `InputError` naming the place that cannot be used."""
    if len(text) > MAX_CHARS:
        raise InputError(f"the file has {len(text)} characters; at most {MAX_CHARS} are read")
    return known(_parsed(text))


def known(value: Any) -> GraphImport:
    """The same, parsed already."""
    document = _object({"workflows": value} if _is_list(value) else value, "the document")
    templates = document.get("workflows", document.get("templates", []))
    found = GraphImport(
        templates=tuple(
            _template(each, f"workflows[{at}]")
            for at, each in enumerate(_list(templates, "workflows"))
        ),
        dependencies=tuple(
            _pair(each, f"dependencies[{at}]")
            for at, each in enumerate(_list(document.get("dependencies", []), "dependencies"))
        ),
        sequences=tuple(
            _sequence(each, f"sequences[{at}]")
            for at, each in enumerate(_list(document.get("sequences", []), "sequences"))
        ),
    )
    if found == GraphImport():
        raise InputError("there is nothing in it; expected workflows, dependencies or sequences")
    return found


def _parsed(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        from toolscript.text.plain_yaml import parse  # noqa: PLC0415 - not needed for JSON

        try:
            return parse(text)
        except ValueError as error:
            raise InputError(f"the file is neither JSON nor YAML: {str(error)[:200]}") from None


def _template(value: Any, where: str) -> Template:
    row = _object(value, where)
    pairs: list[tuple[str, str]] = []
    if "steps" in row:
        steps = [_tool(each, f"{where}.steps") for each in _list(row["steps"], f"{where}.steps")]
        pairs += pairwise(steps)
    if "edges" in row:
        edges = _list(row["edges"], f"{where}.edges")
        pairs += [_pair(each, f"{where}.edges[{at}]") for at, each in enumerate(edges)]
    if "tasks" in row:
        pairs += _of_tasks(_list(row["tasks"], f"{where}.tasks"), f"{where}.tasks")
    if not pairs:
        raise InputError(f"{where} leads nowhere; expected steps, edges or tasks with two tools")
    return Template(name=str(row.get("name", "")), pairs=tuple(pairs))


def _of_tasks(rows: list[Any], where: str) -> Iterator[tuple[str, str]]:
    tasks = [_object(row, f"{where}[{at}]") for at, row in enumerate(rows)]
    tools = {str(task.get("id")): _tool(task.get("tool"), where) for task in tasks}
    for at, task in enumerate(tasks):
        after = task.get("depends_on", task.get("dependsOn", []))
        for before in _list(after, f"{where}[{at}].depends_on"):
            if str(before) not in tools:
                raise InputError(f"{where}[{at}] depends on {str(before)[:60]!r}, which is no task")
            yield tools[str(before)], tools[str(task.get("id"))]


def _sequence(value: Any, where: str) -> tuple[tuple[str, bool], ...]:
    calls: list[tuple[str, bool]] = []
    for each in _list(value, where):
        if isinstance(each, dict):
            call = cast("dict[str, Any]", each)
            calls.append((_tool(call.get("tool"), where), _is_true(call.get("ok", True))))
        else:
            calls.append((_tool(each, where), True))
    return tuple(calls)


def _is_true(value: Any) -> bool:
    """What JSON states by its kinds, YAML states in a word."""
    return bool(value) and str(value).casefold() not in {"false", "no", "off", "n", "0", "null"}


def _pair(value: Any, where: str) -> tuple[str, str]:
    both = _list(value, where)
    if len(both) < 2:  # noqa: PLR2004 - a pair; what is behind it is a comment
        raise InputError(f"{where} is no pair of tools")
    return _tool(both[0], where), _tool(both[1], where)


def _tool(value: Any, where: str) -> str:
    name = value.strip() if isinstance(value, str) else ""
    server, separator, tool = name.partition(SEPARATOR)
    if not separator:
        server, separator, tool = name.partition(":")
    if not (server and separator and tool):
        raise InputError(f"{where}: {str(value)[:60]!r} is no tool; expected server{SEPARATOR}tool")
    return f"{server}{SEPARATOR}{tool}"


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where} is {str(value)[:60]!r}; expected an object")
    return cast("dict[str, Any]", value)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{where} is {str(value)[:60]!r}; expected a list")
    found = cast("list[Any]", value)
    if len(found) > MAX_ROWS:
        raise InputError(f"{where} has {len(found)} entries; at most {MAX_ROWS} are read")
    return found
