"""How well skills are found.

    python -m benchmarks.skills [--engines A,B] [--json FILE]

Asks the questions about the texts beside this module of our engine, and of what
everybody would try first; see `quality`.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import report
from benchmarks.arguments import Parser
from benchmarks.skills import quality
from benchmarks.skills.engines import ENGINES


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; the exit code."""
    parser = Parser(prog="python -m benchmarks.skills")
    add = parser.add_argument
    add("--engines", default=",".join(ENGINES), metavar="A,B", help="which of the engines")
    parser.add_json()
    options = parser.parse_args(arguments)
    names = options.engines.split(",")
    unknown = [name for name in names if name not in ENGINES]
    if unknown:
        parser.error(f"no engine {unknown[0]!r}; there are {', '.join(ENGINES)}")
    found = {each: quality.measured(names, each) for each in quality.COLLECTIONS}
    _print_quality(found, options.json)
    return 0


def _print_quality(found: dict[str, dict[str, quality.Outcome]], path: Path | None) -> None:
    rows = [
        [
            collection,
            name,
            *(f"{part:.3f}" for part in (each.within(1), each.within(3), each.reciprocal)),
        ]
        for collection, outcomes in found.items()
        for name, each in outcomes.items()
    ]
    report.table(["collection", "engine", "R@1", "R@3", "MRR"], rows)
    results = {
        collection: {name: {"ranks": each.ranks} for name, each in outcomes.items()}
        for collection, outcomes in found.items()
    }
    report.write(path, {"meta": report.meta(), **results})


if __name__ == "__main__":
    sys.exit(main())
