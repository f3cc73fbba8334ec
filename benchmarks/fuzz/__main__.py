"""Prints what came of each door."""

import argparse
import json
import sys

from benchmarks.fuzz import DOORS, fuzz

_MAX_SHOWN = 5


def main() -> int:
    """Print a row for each door; 0 where all are clean."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fuzz",
        description="Send made-up requests through every door of a gateway, and look for faults.",
    )
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--door", choices=DOORS, action="append")
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    results = list(fuzz(given.door or DOORS, given.cases, given.seed))
    if given.json:
        rows = [{**vars(r), "answers": dict(r.answers)} for r in results]
        print(json.dumps(rows, indent=2))
    else:
        print(f"{'door':<9}{'cases':>7}{'faults':>8}{'MiB':>7}{'fds':>5}  answers")
        for r in results:
            answers = ", ".join(f"{key} {number}" for key, number in sorted(r.answers.items()))
            grown = f"{r.growth_mib:>7.1f}{r.descriptors:>5}"
            print(f"{r.door:<9}{r.cases:>7}{len(r.faults):>8}{grown}  {answers}")
            for fault in r.faults[:_MAX_SHOWN]:
                print(f"  {fault}")
    return 0 if all(r.is_clean for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
