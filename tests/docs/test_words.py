"""Counts turns of phrase that the sources and the pages shall lose: they may only become fewer.

``words.toml`` has the figures of the latest count: numbers for each package, and for each folder of
pages the number per 1,000 words. Write lower figures with ``python -m tests.docs.test_words``.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, prose
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
PARTICIPLE = rf"(?:[a-z]{{2,}}(?<!e)ed|{'|'.join(sorted(IRREGULAR - {'read_as'}))})"
PAGE_PATTERNS = {
    "what": PATTERNS["what"],
    "where": PATTERNS["where"],
    "passive": re.compile(
        rf"\b(?:is|are|was|were|be|been|being)(?: not| only| also| \w+ly)? {PARTICIPLE}\b",
        re.IGNORECASE,
    ),
    "you": re.compile(r"\b(?:you|your|yours|yourself)\b", re.IGNORECASE),
}
"""The turns of phrase of a page. Of "you" there may only be more: the page speaks to its reader."""
TOLERANCE = 1.0
"""Per 1,000 words: the rate of a small folder moves with three words or a deleted sentence."""


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


def page_groups() -> dict[str, list[Path]]:
    """The pages that people write for users, by folder."""
    return {
        "pages_docs": sorted(DOCS.glob("*.md")),
        "pages_guides": sorted((DOCS / "guides").glob("*.md")),
        "pages_explanation": sorted((DOCS / "explanation").glob("*.md")),
    }


def plain_text(page: Path) -> str:
    """Returns a page's sentences: without code, targets of links, comments and HTML."""
    text = re.sub(r"<!--.*?-->|<[^>\n]*>|`[^`\n]+`", "", prose(page), flags=re.DOTALL)
    return " ".join(re.sub(r"\]\([^)]*\)", "]", text).split())


def rates(paths: list[Path]) -> dict[str, float]:
    """Returns each pattern's number of matches per 1,000 words of the pages."""
    texts = [plain_text(path) for path in paths]
    words = sum(len(text.split()) for text in texts)
    return {
        name: round(1000 * sum(len(pattern.findall(text)) for text in texts) / words, 1)
        for name, pattern in PAGE_PATTERNS.items()
    }


def rises(before: dict[str, float], now: dict[str, float]) -> dict[str, float]:
    """Returns for each pattern how much worse the pages are: more matches, or fewer of "you"."""
    return {
        name: before[name] - now[name] if name == "you" else now[name] - before[name]
        for name in now
    }


@pytest.mark.parametrize("group", sorted(page_groups()))
def test_the_pages_speak_plainly_and_to_the_reader(group: str) -> None:
    before = tomllib.loads(COUNTED.read_text("utf-8"))[group]
    now = rates(page_groups()[group])
    worse = {name: now[name] for name, rise in rises(before, now).items() if rise > TOLERANCE}
    assert not worse, (
        f"per 1,000 words, before: {before}; write a noun, “if” or “when”, the actor, “you”"
    )


@pytest.mark.parametrize("group", sorted(page_groups()))
def test_the_rates_are_those_of_the_last_count(group: str) -> None:
    before = tomllib.loads(COUNTED.read_text("utf-8"))[group]
    behind = {
        name: rise
        for name, rise in rises(before, rates(page_groups()[group])).items()
        if rise < -2 * TOLERANCE
    }
    assert not behind, "run python -m tests.docs.test_words"


@pytest.mark.parametrize(
    ("sentence", "name"),
    [
        ("It returns what the server said.", "what"),
        ("A server is only started where none runs.", "where"),
        ("The token is kept.", "passive"),
        ("The answer was carefully written down.", "passive"),
        ("Your own commands need none.", "you"),
    ],
)
def test_a_turn_of_phrase_is_recognized(sentence: str, name: str) -> None:
    assert PAGE_PATTERNS[name].search(sentence)


@pytest.mark.parametrize("sentence", ["The list is red.", "It is indeed there.", "You need it."])
def test_an_active_sentence_is_not_passive(sentence: str) -> None:
    assert not PAGE_PATTERNS["passive"].search(sentence)


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
        if package not in page_groups()
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
    lines = [
        "# Counted by python -m tests.docs.test_words; see there. The figures may only fall,",
        "# except you. Rows of pages are per 1,000 words.",
    ]
    before = tomllib.loads(COUNTED.read_text("utf-8"))
    every_count = {name: counts(paths) for name, paths in packages().items()}
    every_rate = {name: rates(paths) for name, paths in page_groups().items()}
    for name, row in (every_count | every_rate).items():
        former = before.get(name, {})
        best = {
            word: (max if word == "you" else min)(figure, former.get(word, figure))
            for word, figure in row.items()
        }
        figures = ", ".join(f"{word} = {figure}" for word, figure in best.items())
        lines.append(f"{name} = {{ {figures} }}")
    COUNTED.write_text("\n".join(lines) + "\n", "utf-8")
