"""Attacks a running system with hostile files, servers and clients, and prints what held.

    python -m benchmarks.attack
    python -m benchmarks.attack --only schemas redaction --scale 0.1

Everything runs on this machine, against processes that the attack starts itself. The
exit code is 1 when a promise was broken. Linux only.
"""

import argparse
import sys
from importlib import import_module
from pathlib import Path

from msgspec import to_builtins

from benchmarks import report
from benchmarks.attack.base import Effort, Outcome

AREAS = (
    "tasks",
    "upstream",
    "storage",
    "trust",
    "requests",
    "crowd",
    "redaction",
    "sandbox",
    "login",
)
"""Modules beside this one; each has a function ``attacks(effort)`` that yields outcomes."""


def main() -> int:
    """Run, print, write; 1 if a promise was broken."""
    arguments = _arguments()
    effort = Effort(arguments.scale, arguments.seed)
    outcomes: list[Outcome] = []
    for area in arguments.only:
        module = import_module(f"benchmarks.attack.{area}")
        for outcome in module.attacks(effort):
            print(f"{outcome.finding} {outcome.attack}: {outcome.failed} failed", file=sys.stderr)
            outcomes.append(outcome)
    _print(outcomes)
    rows = [{**to_builtins(each), "failed": each.failed} for each in outcomes]
    report.write(arguments.json, {**report.meta(seed=arguments.seed), "outcomes": rows})
    return int(any(each.failed for each in outcomes))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=AREAS, default=AREAS, metavar="AREA")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on every count")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the outcomes to this file")
    return parser.parse_args()


def _print(outcomes: list[Outcome]) -> None:
    rows = [
        [o.finding, o.attack, str(o.tried), str(o.held), str(o.failed), o.figure] for o in outcomes
    ]
    report.table(["finding", "attack", "tried", "held", "failed", "figure"], rows)


if __name__ == "__main__":
    sys.exit(main())
