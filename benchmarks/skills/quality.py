"""Questions about the texts beside this module, each with the skill that answers it.

The texts and the questions were written for this; the questions before anything was
measured with them, in other words than the texts, two for each: what the skill is for, and
something that a passage says. Nothing was changed in either afterwards.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.skills.engines import ENGINES, Find
from toolscript.skills.library import Library, Shelf

FOLDER = Path(__file__).parent
TEXTS = FOLDER / "texts"


@dataclass(frozen=True)
class Outcome:
    """How many questions found their skill at which rank; 0 stands for not among the first ten."""

    ranks: tuple[int, ...]

    def within(self, rank: int) -> float:
        """The share of questions whose skill is among the first so many."""
        return sum(0 < each <= rank for each in self.ranks) / len(self.ranks)

    @property
    def reciprocal(self) -> float:
        """The mean reciprocal rank."""
        return sum(1 / each for each in self.ranks if each) / len(self.ranks)


def shelf() -> Shelf:
    """The skills of the texts; raises `ValueError` where one of them cannot be read."""
    found = Library().look([TEXTS], Shelf())
    if found.problems:
        raise ValueError("; ".join(found.problems))
    return found


def questions() -> list[tuple[str, str]]:
    """Each question with the name of the skill that it is about."""
    rows = json.loads((FOLDER / "questions.json").read_text("utf-8"))
    return [(question, row["skill"]) for row in rows for question in row["questions"]]


def measure(find: Find, asked: Iterable[tuple[str, str]]) -> Outcome:
    """Ask every question of one engine."""
    return Outcome(tuple(_rank(find(question), skill) for question, skill in asked))


def measured(names: Iterable[str]) -> dict[str, Outcome]:
    """Some of `ENGINES`, by name."""
    there, asked = shelf(), questions()
    return {name: measure(ENGINES[name](there), asked) for name in names}


def _rank(found: list[str], skill: str) -> int:
    return found.index(skill) + 1 if skill in found else 0
