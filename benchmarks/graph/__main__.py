"""The command line: what to measure, and what to do with it."""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.arguments import WRONG, Parser
from benchmarks.graph import cost, next_tool, searching
from benchmarks.graph.data import GRAPH, NEXT
from benchmarks.graph.results import Result, averages, compared
from benchmarks.quality import datasets
from benchmarks.quality.datasets import QUERIES, DataError
from toolscript.errors import ToolscriptError

TASKS: dict[str, Callable[[Path, int | None], list[Result]]] = {
    "next-tool": next_tool.run,
    "next-tool-asked": searching.asked,
    "multi-tool": searching.several,
    "needs": searching.needs,
    "usage": searching.usage,
    "mixed": searching.mixed,
    "cost": cost.run,
}
NEEDED = {
    "next-tool": (GRAPH, NEXT),
    "next-tool-asked": (GRAPH, NEXT),
    "multi-tool": (GRAPH, QUERIES),
    "needs": (GRAPH, QUERIES),
    "usage": (QUERIES,),
    "mixed": (QUERIES,),
    "cost": (),
}
"""The files that a dataset must have for a task."""
COMPARED = [*next_tool.COMPARED, *searching.COMPARED]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; the exit code."""
    parser = Parser(prog="python -m benchmarks.graph", description="What the graph of tools knows.")
    add = parser.add_argument
    parser.add_data()
    add("--datasets", type=_names, metavar="A,B", help="only these")
    add("--tasks", type=_tasks, default=list(TASKS), metavar="T,U", help=", ".join(TASKS))
    add("--sample", type=int, metavar="N", help="at most N items of each dataset")
    parser.add_json()
    options = parser.parse_args(arguments)
    try:
        results = list(_measured(options))
    except (DataError, ToolscriptError) as error:
        parser.error(str(error))
    return _report(options, results)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _tasks(text: str) -> list[str]:
    unknown = [name for name in _names(text) if name not in TASKS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no task {unknown[0]!r}; there are {', '.join(TASKS)}")
    return _names(text)


def _measured(options: argparse.Namespace) -> Iterable[Result]:
    found = 0
    for folder in datasets.find(options.data, options.datasets or _everything(options.data)):
        for task in options.tasks:
            if all(_has_content(folder / name) for name in NEEDED[task]):
                found += 1
                yield from TASKS[task](folder, options.sample)
    if not found:
        raise DataError(f"{options.data}: no dataset has what these tasks need")


def _has_content(path: Path) -> bool:
    """Whether a file has lines: a dataset may have tools alone, and an empty file of questions."""
    return path.is_file() and path.stat().st_size > 0


def _everything(data: Path) -> list[str] | None:
    """Every folder with tools: some have no queries, only uses."""
    if not data.is_dir():
        return None
    return sorted(path.parent.name for path in data.glob(f"*/{datasets.TOOLS}")) or None


def _report(options: argparse.Namespace, results: Sequence[Result]) -> int:
    rows = [result.row() for result in results] + averages(results)
    for task in dict.fromkeys(row["task"] for row in rows):
        _print(f"\n{task}\n", [row for row in rows if row["task"] == task])
    comparison = compared(results, COMPARED)
    if comparison:
        _print("\nthe first engine less the second, paired bootstrap, 95 % interval\n", comparison)
    meta = report.meta(seed=datasets.SEED, sample=options.sample)
    try:
        report.write(options.json, {"meta": meta, "results": rows, "comparison": comparison})
    except OSError as error:
        print(f"--json {options.json}: {error.strerror or error}", file=sys.stderr)
        return WRONG
    return 0


def _print(title: str, rows: Sequence[dict[str, Any]]) -> None:
    print(title)
    header = [name for name in rows[0] if name != "task"] if rows else []
    report.table(header, [[_shown(row.get(name, "")) for name in header] for row in rows])


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    return " − ".join(map(str, value)) if isinstance(value, list) else str(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - of strings


if __name__ == "__main__":
    sys.exit(main())
