"""Guesses of tools' classes from their names, beside what their servers say.

    python -m benchmarks.classes --data DIR [--dataset published] [--examples 5] [--json FILE]

A dataset's ``tools.jsonl`` may have each tool's ``annotations``. The guess is for tools whose
server says nothing; how good it is can be counted only where servers say something.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from benchmarks import report
from benchmarks.arguments import Parser
from benchmarks.quality import datasets
from benchmarks.quality.datasets import DataError
from toolscript.types import TOOL_CLASSES, ToolSpec


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print, write; the exit code."""
    parser = Parser(prog="python -m benchmarks.classes", description="Guesses of tools' classes.")
    options = _options(parser, arguments)
    try:
        tools = [
            ToolSpec(
                server=tool.server,
                name=tool.name,
                input_schema=tool.input_schema or {},
                annotations=tool.annotations,
            )
            for tool in datasets.tools(options.data / options.dataset)
        ]
    except DataError as error:
        parser.error(str(error))
    stated = [tool for tool in tools if tool.class_source == "server"]
    counts = Counter((_guess(tool), tool.tool_class) for tool in stated)
    rows = [[g, *(f"{counts[g, own]:,}" for own in TOOL_CLASSES)] for g in TOOL_CLASSES]
    report.table(["guess", *(f"server: {own}" for own in TOOL_CLASSES)], rows)
    servers = len({tool.server for tool in stated})
    print(f"\n{len(stated):,} tools of {servers} servers state annotations")
    wrong = [t for t in stated if (_guess(t), t.tool_class) == ("read", "destructive")]
    reads = sum(counts["read", own] for own in TOOL_CLASSES)
    figures = {
        "guessed reads that the server calls destructive": _share(len(wrong), reads),
        "guessed reads that the server calls read-only": _share(counts["read", "read"], reads),
        "reads that are guessed": _share(counts["read", "read"], _total(counts, "read")),
        **{f"all tools, guessed {g}": _share(_number(tools, g), len(tools)) for g in TOOL_CLASSES},
    }
    for what, share in figures.items():
        print(f"- {what}: {share}")
    for tool in wrong[: options.examples]:
        print(f"- {tool.id}: {tool.annotations}")
    report.write(options.json, {"meta": report.meta(tools=len(tools)), "figures": figures})
    return 0


def _options(parser: Parser, arguments: Sequence[str] | None) -> argparse.Namespace:
    add = parser.add_argument
    parser.add_data()
    add("--dataset", default="published", metavar="SET", help="the dataset whose tools to look at")
    add("--examples", type=int, default=0, metavar="N", help="show so many wrong guesses")
    parser.add_json()
    return parser.parse_args(arguments)


def _guess(tool: ToolSpec) -> str:
    return replace(tool, annotations=None).tool_class


def _number(tools: Iterable[ToolSpec], guess: str) -> int:
    return sum(_guess(tool) == guess for tool in tools)


def _total(counts: Counter[tuple[str, str]], own: str) -> int:
    return sum(number for (_, stated), number in counts.items() if stated == own)


def _share(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} ({part / max(1, whole):.1%})"


if __name__ == "__main__":
    sys.exit(main())
