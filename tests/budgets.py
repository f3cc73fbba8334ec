"""Weighs the house: lines of each package, of the tests and the benchmarks, options and so on.

``budgets.toml`` has the most that each may weigh; `test_architecture` compares. Write lower figures
with ``python -m tests.budgets``. A change that raises one by hand says in its commit who asked for
it, and lowers another by as much.
"""

import tomllib
from collections.abc import Iterable
from pathlib import Path

from tests.docs.pages import DOCS
from tests.docs.test_words import SOURCES, packages
from tests.support import ROOT
from toolscript.config.settings import OPTIONS
from toolscript.surfaces.cli.main import COMMANDS

BUDGETS = Path(__file__).with_name("budgets.toml")
_HEADER = """\
# Written by python -m tests.budgets; see there. The figures may only fall.
# A row is the lines of a package of src/toolscript, unless its name says otherwise.
"""


def weights() -> dict[str, int]:
    """Returns the figures of today, by the names of their rows."""
    return {
        **{name: _lines(paths) for name, paths in packages().items()},
        "all_of_src": _lines(SOURCES.rglob("*.py")),
        "all_of_tests": _lines((ROOT / "tests").rglob("*.py")),
        "all_of_benchmarks": _lines((ROOT / "benchmarks").rglob("*.py")),
        "words_of_docs": sum(len(page.read_text("utf-8").split()) for page in DOCS.rglob("*.md")),
        "options": len(OPTIONS),
        "commands": len(COMMANDS),
    }


def budgets() -> dict[str, int]:
    """Returns the most that each row may weigh."""
    return tomllib.loads(BUDGETS.read_text("utf-8"))


def _lines(paths: Iterable[Path]) -> int:
    return sum(path.read_text("utf-8").count("\n") for path in paths)


def _lower() -> None:
    """Writes today's figures where they are lower."""
    before = budgets()
    rows = [f"{name} = {min(now, before.get(name, now))}\n" for name, now in weights().items()]
    BUDGETS.write_text(_HEADER + "".join(rows), "utf-8")


if __name__ == "__main__":
    _lower()
