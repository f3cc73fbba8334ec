"""The command line: which breaks to make, and what to do with the verdicts."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import report
from tests.mutants.listed import Mutant, load, noticing_tests
from tests.mutants.workplace import NOTICED, Verdict, Workplace

WRONG = 2
_SHOWN_CHARS = 3000


def main(arguments: Sequence[str] | None = None) -> int:
    """Break, test, report; 1 where a break was not noticed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description="Breaks that tests have to notice."
    )
    add = parser.add_argument
    add("--only", metavar="ID,ID", help="only the breaks of these requirements or findings")
    add("--json", type=Path, metavar="FILE", help="write the verdicts there too")
    add("--unchecked", action="store_true", help="do not first run the tests on whole sources")
    options = parser.parse_args(arguments)
    only = options.only.split(",") if options.only else None
    mutants = [each for each in load() if only is None or each.id in only]
    problems = [f"{each.id}: {problem}" for each in mutants if (problem := each.problem())]
    if problems or not mutants:
        print("\n".join(problems) or "no such break", file=sys.stderr)
        return WRONG
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        place = Workplace(Path(directory))
        if not options.unchecked and not _whole(place, mutants):
            return WRONG
        verdicts = [_judged(place, each) for each in mutants]
    return _reported(verdicts, options.json)


def _whole(place: Workplace, mutants: Sequence[Mutant]) -> bool:
    """Whether the tests pass as long as nothing is broken: else they notice nothing."""
    tests = list(dict.fromkeys(test for each in mutants for test in noticing_tests(each)))
    status, output = place.run(tests, limit_s=3600)
    if status:
        print(f"{output[-_SHOWN_CHARS:]}\nthese fail without any break", file=sys.stderr)
    return status == 0


def _judged(place: Workplace, mutant: Mutant) -> Verdict:
    found = place.judge(mutant)
    print(f"{found.verdict:10} {found.seconds:5.1f} s  {mutant.id} {mutant.file}", flush=True)
    if found.verdict != NOTICED:
        print(f"  {mutant.old!r}\n  → {mutant.new!r}\n{found.output[-_SHOWN_CHARS:]}", flush=True)
    return found


def _reported(verdicts: Sequence[Verdict], out: Path | None) -> int:
    rows = [[v.mutant.id, v.mutant.file, v.verdict, v.by] for v in verdicts]
    print()
    report.table(["breaks", "in", "verdict", "by"], rows)
    noticed = sum(each.verdict == NOTICED for each in verdicts)
    print(f"\n{noticed} of {len(verdicts)} were noticed")
    named = [dict(zip(("id", "file", "verdict", "by"), row, strict=True)) for row in rows]
    report.write(out, {"meta": report.meta(), "results": named})
    return int(noticed < len(verdicts))


if __name__ == "__main__":
    sys.exit(main())
