"""Questions about the texts beside this module, each with the skill that answers it.

There are two collections: *notes*, short texts of some 500 characters, and *guides*, folders
with a ``SKILL.md`` of some 2,400, in four to six sections, as agents carry them. The texts and
the questions were written for this; the questions before anything was measured with them,
in other words than the texts, two for each: what the skill is for, and something that a
passage says. Nothing was changed in either afterwards.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.skills.engines import ENGINES, Find
from toolscript.skills.scanner import SkillCatalogue, SkillScanner

FOLDER = Path(__file__).parent
COLLECTIONS = ("notes", "guides")


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


def texts(collection: str) -> Path:
    """Where the texts of a collection lie."""
    return FOLDER / collection / "texts"


def skill_catalogue(collection: str) -> SkillCatalogue:
    """The skills of a collection; raises `ValueError` where one of them cannot be read."""
    found = SkillScanner().scan([texts(collection)], SkillCatalogue())
    if found.problems:
        raise ValueError("; ".join(found.problems))
    return found


def questions(collection: str) -> list[tuple[str, str]]:
    """Each question with the name of the skill that it is about."""
    rows = json.loads((FOLDER / collection / "questions.json").read_text("utf-8"))
    return [(question, row["skill"]) for row in rows for question in row["questions"]]


def measure(find: Find, asked: Iterable[tuple[str, str]]) -> Outcome:
    """Ask every question of one engine."""
    return Outcome(tuple(_rank(find(question), skill) for question, skill in asked))


def measured(names: Iterable[str], collection: str) -> dict[str, Outcome]:
    """Some of `ENGINES`, by name."""
    there, asked = skill_catalogue(collection), questions(collection)
    return {name: measure(ENGINES[name](there), asked) for name in names}


def _rank(found: list[str], skill: str) -> int:
    return found.index(skill) + 1 if skill in found else 0
