"""The checks of definitions whose notes a person sees at a review.

The checks are exact and narrow: honest definitions rarely get a note, and whoever knows the checks
can write around them.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

from toolscript.gateway.definitions.imitation import imitations
from toolscript.gateway.definitions.note import Note
from toolscript.gateway.definitions.text_checks import definition_notes
from toolscript.types import ToolSpec


@dataclass(frozen=True, slots=True)
class Review:
    """The tools under review, and the facts that checks compare them with."""

    tools: Collection[ToolSpec]
    known: Collection[ToolSpec]
    """All tools of the caller, those under review among them."""
    servers: Collection[str]
    """The names of all configured servers."""
    accepted_at: Callable[[ToolSpec], int]
    """Returns the Unix time at which a tool was first accepted, 0 for never."""


Check: TypeAlias = Callable[[Review], dict[str, tuple[Note, ...]]]
"""Returns notes by tool id."""


def check_texts(review: Review) -> dict[str, tuple[Note, ...]]:
    """Returns the notes on the texts of each definition."""
    return {tool.id: definition_notes(tool, review.servers) for tool in review.tools}


def check_names(review: Review) -> dict[str, tuple[Note, ...]]:
    """Returns a note for each tool that imitates another server's."""
    notes = imitations(review.known, review.accepted_at)
    return {identifier: (note,) for identifier, note in notes.items()}


CHECKS: tuple[Check, ...] = (check_texts, check_names)


def review_notes(review: Review) -> dict[str, tuple[Note, ...]]:
    """Returns the notes of all checks on the tools under review, by id. Takes a while for many."""
    by_check = [check(review) for check in CHECKS]
    notes = {
        tool.id: tuple(note for found in by_check for note in found.get(tool.id, ()))
        for tool in review.tools
    }
    return {identifier: some for identifier, some in notes.items() if some}
