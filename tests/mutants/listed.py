"""The list of breaks, and the tests that have to notice each."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from tests.requirements import REQUIREMENTS, functions_in, proofs

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("mutants.toml")
SOURCES = Path("src") / "toolscript"
FINDING = re.compile(r"[A-Z]\d+[a-z]?")
"""A row of an audit, such as H1: its tests are called ``test_h1_…``."""


class Mutant(msgspec.Struct, frozen=True, kw_only=True, rename={"old": "from", "new": "to"}):
    """One deliberate break."""

    id: str
    """The requirement or the finding that it breaks."""
    file: str
    """Below ``src/toolscript``."""
    old: str
    """The text to be replaced; it occurs once in the file."""
    new: str
    tests: tuple[str, ...] = ()
    """Those that are enough; where there are none, all of the requirement's."""

    @property
    def path(self) -> Path:
        """The file, below the repository's root."""
        return SOURCES / self.file

    def problem(self, root: Path = ROOT) -> str:
        """Why it cannot be made; empty where it can."""
        path = root / self.path
        if not path.is_file():
            return f"{self.path} is not there"
        found = path.read_text("utf-8").count(self.old)
        if found != 1:
            return f"{self.path} has {self.old!r} {found} times, not once"
        if not noticing_tests(self):
            return f"no test is known for {self.id}"
        return ""


def load(path: Path = LIST) -> list[Mutant]:
    """Read the list."""
    rows: Any = tomllib.loads(path.read_text("utf-8"))["mutant"]
    return msgspec.convert(rows, list[Mutant])


def noticing_tests(mutant: Mutant) -> tuple[str, ...]:
    """The tests that have to notice a break: stated, a requirement's, or named after a finding."""
    if mutant.tests:
        return mutant.tests
    if mutant.id in REQUIREMENTS:
        return proofs().get(mutant.id, ())
    if not FINDING.fullmatch(mutant.id):
        return ()
    begins = f"test_{mutant.id.lower()}_"
    return tuple(test for test in _every_test() if test.split("::")[-1].startswith(begins))


@cache
def _every_test() -> tuple[str, ...]:
    return tuple(
        "::".join((str(path.relative_to(ROOT)), *names))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for names, _ in functions_in(ast.parse(path.read_text("utf-8")))
        if names[-1].startswith("test_")
    )
