"""Counts what the language of the sources is to lose: in no package may it become more.

``words.toml`` has what each package had when it was counted last. Whoever has made it fewer writes
the new figures: ``python -m tests.docs.test_words``.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT

SOURCES = ROOT / "src" / "toolscript"
COUNTED = Path(__file__).with_name("words.toml")
PATTERNS = {
    "what": re.compile(r"\bwhat\b", re.IGNORECASE),
    "where": re.compile(r"\bwhere\b", re.IGNORECASE),
    "none_where": re.compile(r"\bNone where\b"),
    "fragments": re.compile(r"\A(?:Of|By|So many|So much)\b"),
}
"""A noun clause for a noun, "where" for "if", and a sentence that begins with the name above."""
IRREGULAR = frozenset(
    """
    begun bound built cut done drawn forgotten found given gone held hidden kept known left lost
    made meant met read_as said seen sent shown spent taken told thrown understood worn written
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
REGULAR = re.compile(r"_*[a-z]+(?<!e)ed(?:_|\Z)")
NOUNS = frozenset(["embed", "feed", "need", "seed", "speed", "exceed", "proceed", "shed"])
"""Words that end as participles do, and are none."""


def docstrings(tree: ast.AST) -> Iterator[str]:
    """The docstrings of modules, classes, functions, constants and fields."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        values = [each.value for each in node.body if isinstance(each, ast.Expr)]
        for value in values:
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value.strip()


def is_participle(name: str) -> bool:
    first = name.strip("_").partition("_")[0]
    if first in NOUNS or first.endswith("eed"):
        return False
    return first in IRREGULAR or REGULAR.match(first) is not None


def packages() -> dict[str, list[Path]]:
    """The modules of each package; those beside the packages are one."""
    found: dict[str, list[Path]] = {}
    for path in sorted(SOURCES.rglob("*.py")):
        place = path.relative_to(SOURCES)
        found.setdefault(place.parts[0] if len(place.parts) > 1 else "face", []).append(path)
    return found


def counts(paths: list[Path]) -> dict[str, int]:
    """How often a package's docstrings have each pattern, and how its functions are called."""
    trees = [ast.parse(path.read_text("utf-8")) for path in paths]
    texts = [text for tree in trees for text in docstrings(tree)]
    result = {
        name: sum(len(pattern.findall(text)) for text in texts)
        for name, pattern in PATTERNS.items()
    }
    functions = [
        node.name
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return {**result, "participles": sum(map(is_participle, functions))}


@pytest.mark.parametrize("package", sorted(packages()))
def test_no_package_has_more_of_it_than_before(package: str) -> None:
    before = tomllib.loads(COUNTED.read_text("utf-8")).get(package, {})
    now = counts(packages()[package])
    more = {
        name: (before.get(name, 0), now[name]) for name in now if now[name] > before.get(name, 0)
    }
    assert not more, (
        "say it with a noun, with “if”, in a whole sentence, with a verb; see the docstring"
    )


def test_the_figures_are_those_of_the_last_count() -> None:
    """Where there are fewer by now, the file is behind, and would let them come back."""
    before = tomllib.loads(COUNTED.read_text("utf-8"))
    now = {package: counts(paths) for package, paths in packages().items()}
    behind = {
        f"{package}.{name}": (count, now[package][name])
        for package, figures in before.items()
        for name, count in figures.items()
        if package not in now or count > now[package][name] + 5
    }
    assert not behind, "run python -m tests.docs.test_words"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("_asked", True),
        ("found", True),
        ("told_of", True),
        ("embed_query", False),
        ("needs", False),
        ("read", False),
        ("feed", False),
        ("is_cached", False),
        ("shortened_text", True),
    ],
)
def test_a_participle_is_told_from_a_verb(name: str, *, expected: bool) -> None:
    assert is_participle(name) == expected


if __name__ == "__main__":
    lines = ["# Counted by python -m tests.docs.test_words; see there. The figures may only fall."]
    for package, paths in packages().items():
        figures = ", ".join(f"{name} = {count}" for name, count in counts(paths).items())
        lines.append(f"{package} = {{ {figures} }}")
    COUNTED.write_text("\n".join(lines) + "\n", "utf-8")
