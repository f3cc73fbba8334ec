"""Notes for a person who reviews a tool: what its definition says that most do not.

A note is no verdict, and nothing is blocked because of one. The checks are exact and narrow:
honest definitions rarely get a note, and whoever knows the checks can write around them.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import Any, Literal, cast

import msgspec

from toolscript.gateway.definitions.imitation import imitated
from toolscript.gateway.definitions.text_checks import FindingKind, findings, quoted
from toolscript.text.display import printable
from toolscript.text.words import compact
from toolscript.types import ToolSpec

MAX_NODES = 5_000
MAX_DEPTH = 128
"""Values and levels of a definition's JSON that are looked at, those near the top first."""
MAX_CHARS = 1_048_576
"""Characters of a definition that are looked at."""
MAX_NOTE_CHARS = 300
_MAX_PLACE = 80

_MIN_SERVER = 4
"""Letters of another server's name; a shorter one is part of too many words."""

NoteKind = FindingKind | Literal["imitates"]


class Note(msgspec.Struct, frozen=True):
    """What a person should know before trusting a tool."""

    kind: NoteKind
    text: str
    """One sentence in plain English, safe to show, at most `MAX_NOTE_CHARS` long."""


def definition_notes(tool: ToolSpec, servers: Collection[str] = ()) -> tuple[Note, ...]:
    """Returns what is unusual in the texts of a tool's definition, at most one note of each kind.

    Looked at are the name, the title, the description, and every name and text in the
    annotations and in both schemas, within `MAX_NODES`, `MAX_DEPTH` and `MAX_CHARS`.

    Args:
        tool: The tool as its server lists it.
        servers: The names of all configured servers; the tool's own may be among them.
    """
    others = dict(_others(servers, compact(tool.server)))
    notes: dict[str, Note] = {}
    left = MAX_CHARS
    for place, text in _texts(tool):
        for kind, message in findings(text[:left], others):
            notes.setdefault(kind, _note(kind, f"{place} {message}."))
        left = max(0, left - len(text))
    return tuple(notes.values())


def imitations(
    tools: Iterable[ToolSpec], accepted_at: Callable[[ToolSpec], int] = lambda _: 0
) -> dict[str, Note]:
    """Returns a note for each tool that imitates a tool of another server, by tool id.

    Many servers have a ``search`` or a ``read_file``, so equal names are no reason. These are:

    - a name that looks like another: letters of another script, or digits for letters;
    - a name that consists of another server's name and that of one of its tools;
    - a name one letter off (of at least 8), or with other digits at its end, where both
      descriptions begin with the same sentence;
    - an equal name, where both descriptions begin with the same sentence of at least 30 letters,
      or have at least 6 words and share 80 % of them.

    Of two that are alike the newer one gets the note, or both where neither is older.
    Takes time in proportion to the number of tools and the length of their names.

    Args:
        tools: All tools.
        accepted_at: Returns the Unix time at which a tool was first accepted, 0 for never.
    """
    notes: dict[str, Note] = {}
    for tool, like, other in imitated(tools, accepted_at):
        label = f"tool {quoted(other.spec.name)} of server {quoted(other.spec.server)}"
        notes.setdefault(tool.spec.id, _note("imitates", f"Its {like} of the {label}."))
    return notes


def _note(kind: NoteKind, text: str) -> Note:
    return Note(kind, printable(text, MAX_NOTE_CHARS))


def _others(servers: Iterable[str], own: str) -> Iterator[tuple[str, str]]:
    """Yields the names that are long enough to be looked for, and no variants of the own name."""
    for name in servers:
        letters = compact(name)
        if len(letters) >= _MIN_SERVER and letters not in own and own not in letters:
            yield name, letters


def _texts(tool: ToolSpec) -> Iterator[tuple[str, str]]:
    """Yields every text of a definition, and what to call its place, from the top down."""
    yield "Its name", tool.name
    yield "Its title", tool.title
    yield "Its description", tool.description
    waiting: deque[tuple[str, int, Any]] = deque(
        (
            ("Its annotations", 0, tool.annotations),
            ("Its input schema", 0, tool.input_schema),
            ("Its output schema", 0, tool.output_schema),
        )
    )
    for _ in range(MAX_NODES):
        if not waiting:
            return
        place, depth, value = waiting.popleft()
        if isinstance(value, str):
            yield place, value
        elif depth < MAX_DEPTH:
            for key, child in islice(_children(value), MAX_NODES - len(waiting)):
                waiting.append((_inside(place, key), depth + 1, child))


def _inside(place: str, key: str) -> str:
    if not key or len(place) + len(key) > _MAX_PLACE:
        return place
    return f"{place}/{key}" if " at " in place else f"{place} at {key}"


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields what is inside a value, and the names there, which a model reads as well."""
    if isinstance(value, list):
        yield from (("", child) for child in cast("list[Any]", value))
    elif isinstance(value, dict):
        for key, child in cast("dict[Any, Any]", value).items():
            yield "", str(key)
            yield str(key), child
