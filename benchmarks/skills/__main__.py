"""How well skills are found, and how quickly where there are many.

    python -m benchmarks.skills [--engines A,B] [--json FILE]
    python -m benchmarks.skills --files 10000 [--json FILE]

Without ``--files``: the questions and texts beside this module, asked of our
engine and of what everybody would try first; see `quality`. With it: so many
files made of those texts, their vectors random; see `scale`.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import report
from benchmarks.skills import quality, scale
from benchmarks.skills.engines import ENGINES


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.skills")
    add = parser.add_argument
    add("--engines", default=",".join(ENGINES), metavar="A,B", help="which of the engines")
    add("--files", type=int, default=0, metavar="N", help="measure time, with so many files")
    add("--json", type=Path, metavar="FILE", help="write all figures there too")
    options = parser.parse_args(arguments)
    if options.files:
        found = scale.measured(options.files)
        report.table(["what", "figure"], [[name, f"{value:,.2f}"] for name, value in found.items()])
        report.write(options.json, {"meta": report.meta(files=options.files), "results": found})
        return 0
    names = options.engines.split(",")
    unknown = [name for name in names if name not in ENGINES]
    if unknown:
        print(f"{parser.prog}: no engine {unknown[0]!r}; there are {', '.join(ENGINES)}")
        return 2
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
