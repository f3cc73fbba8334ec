"""Finds tools whose names imitate a tool of another server, and copies of one."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from rapidfuzz.distance import OSA

from toolscript.gateway.definitions.note import Note, quoted
from toolscript.text.words import compact, first_sentence, words
from toolscript.types import ToolSpec, is_older

_MAX_NAME = 128
_MIN_SERVER = 4
"""Letters of a server's name that is looked for before a tool's."""
_MIN_NAME = 8
"""Letters of a name one letter off; shorter honest ones differ by one: ``list`` and ``lint``."""
_MIN_SENTENCE = 20
"""Letters of a first sentence; shorter ones, such as ``List issues``, are alike by chance."""
_MIN_COPIED_SENTENCE = 30
"""The same for tools of the same name, which often do the same."""
_MIN_COPIED_WORDS = 6
_MIN_SHARED_WORDS = 0.8
"""Words of a text, and the share of two texts' words that both have, of a copy."""
_MAX_COMPARED = 64
"""Tools of one name, the oldest, with whose texts others of the name are compared."""
_MAX_KEPT = 4
_MAX_KEPT_OF_NAME = 2
"""Tools under one key of an index, each of another server: many like ones take no longer."""

_DIGITS = "0123456789"
_LOOKS = str.maketrans(
    "01i\u0131\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u04bb\u0501\u051b\u051d"
    "\u0432\u043a\u043c\u043d\u0442\u03b1\u03b2\u03b5\u03b9\u03ba\u03bc\u03bd\u03bf\u03c1\u03c4\u03c7",
    "olllaeopcyxsljhdqwbkmhtabelkmvoptx",
)
"""The Latin letter that a digit, or a Cyrillic or Greek letter, looks like; i and l are one."""


class NamedTool:
    """A tool's name as it is compared, and when it was first accepted: see `is_older`."""

    def __init__(self, tool: ToolSpec, accepted_at: int) -> None:
        self.spec = tool
        self.accepted_at = accepted_at
        self.server = compact(tool.server)
        self.name = compact(tool.name)[:_MAX_NAME]
        self.looks = self.name.translate(_LOOKS)
        sentence = compact(first_sentence(tool.description.strip()))
        self.sentence = sentence if len(sentence) >= _MIN_SENTENCE else ""

    @cached_property
    def words(self) -> frozenset[str]:
        """The words of its description."""
        return frozenset(words(self.spec.description))

    def rivals(self, others: Iterable["NamedTool"]) -> Iterator["NamedTool"]:
        """Yields those of servers with quite another name whose own names are not the same."""
        return (other for other in self.strangers(others) if self.name != other.name)

    def strangers(self, others: Iterable["NamedTool"]) -> Iterator["NamedTool"]:
        """Yields those of servers with quite another name."""
        for other in others:
            if self.server not in other.server and other.server not in self.server:
                yield other

    def has_text_of(self, other: "NamedTool") -> bool:
        """Whether its description is nearly the other's, or begins with the same long sentence."""
        if self.sentence == other.sentence and len(self.sentence) >= _MIN_COPIED_SENTENCE:
            return True
        shared = len(self.words & other.words)
        every = len(self.words) + len(other.words) - shared
        least = min(len(self.words), len(other.words))
        return least >= _MIN_COPIED_WORDS and shared >= _MIN_SHARED_WORDS * every


Pair = tuple[NamedTool, str, NamedTool]
"""A tool, the likeness of its name, and the tool that it imitates."""


class _Index:
    """Tools by a key, few of each."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], list[NamedTool]] = {}

    def add(self, tool: NamedTool, *key: str) -> None:
        kept = self._kept.setdefault(key, [])
        named = sum(each.name == tool.name for each in kept)
        room = len(kept) < _MAX_KEPT and named < _MAX_KEPT_OF_NAME
        if room and all(each.server != tool.server for each in kept):
            kept.append(tool)

    def get(self, *key: str) -> list[NamedTool]:
        return self._kept.get(key, [])


def imitations(
    tools: Iterable[ToolSpec], accepted_at: Callable[[ToolSpec], int] = lambda _: 0
) -> dict[str, Note]:
    """Returns a note for each tool that imitates a tool of another server, by tool id.

    Many servers have a ``search`` or a ``read_file``, so equal names are no reason. These are:

    - a name that looks like another: letters of another script, or digits for letters;
    - a name that consists of another server's name and that of one of its tools;
    - a name one letter off (of at least 8), or with other digits at its end, if both
      descriptions begin with the same sentence;
    - an equal name, if both descriptions begin with the same sentence of at least 30 letters,
      or have at least 6 words and share 80 % of them.

    Of two that are alike the newer one gets the note, or both if neither is older.
    Takes time in proportion to the number of tools and the length of their names.

    Args:
        tools: All tools.
        accepted_at: Returns the Unix time at which a tool was first accepted, 0 for never.
    """
    notes: dict[str, Note] = {}
    for tool, like, other in _find_imitations(tools, accepted_at):
        label = f"tool {quoted(other.spec.name)} of server {quoted(other.spec.server)}"
        notes.setdefault(tool.spec.id, Note.of("imitates", f"Its {like} of the {label}."))
    return notes


def _find_imitations(
    tools: Iterable[ToolSpec], accepted_at: Callable[[ToolSpec], int]
) -> Iterator[Pair]:
    """Yields tools that imitate another, the surest signs first; a tool may come several times.

    Args:
        tools: All tools.
        accepted_at: Returns the Unix time at which a tool was first accepted, 0 for never.
    """
    named = [NamedTool(tool, accepted_at(tool)) for tool in tools]
    named.sort(key=lambda tool: tool.accepted_at or math.inf)  # the oldest are kept
    yield from _lookalikes(named)
    yield from _find_prefixes(named)
    for pair in (*_copies(named), *_near(named)):
        if not is_older(pair[0].accepted_at, pair[2].accepted_at):
            yield pair


def _lookalikes(tools: list[NamedTool]) -> Iterator[Pair]:
    index = _Index()
    for tool in tools:
        index.add(tool, tool.looks)
    for tool in tools:
        if not tool.name.isascii() or not {"0", "1"}.isdisjoint(tool.name):
            for other in tool.rivals(index.get(tool.looks)):
                yield tool, "name looks like that", other


def _find_prefixes(tools: list[NamedTool]) -> Iterator[Pair]:
    index = _Index()
    for tool in tools:
        if len(tool.server) >= _MIN_SERVER:
            index.add(tool, tool.server + tool.name)
    for tool in tools:
        for other in tool.rivals(index.get(tool.name)):
            yield tool, "name puts the server's before that", other


def _copies(tools: list[NamedTool]) -> Iterator[Pair]:
    """Compares the texts of tools of the same name."""
    index: defaultdict[str, list[NamedTool]] = defaultdict(list)
    for tool in tools:
        index[tool.name].append(tool)
    for alike in index.values():
        for tool in alike if len(alike) > 1 else ():
            for other in tool.strangers(alike[:_MAX_COMPARED]):
                if tool.has_text_of(other):
                    yield tool, "name and text are nearly those", other
                    break


def _near(tools: list[NamedTool]) -> Iterator[Pair]:
    """Compares names of tools whose descriptions begin with the same sentence."""
    index = _Index()
    for tool in tools:
        for part in _parts(tool):
            index.add(tool, tool.sentence, part)
    for tool in tools:
        for part in _parts(tool):
            for other in tool.rivals(index.get(tool.sentence, part)):
                if _is_near(tool.name, other.name):
                    yield tool, "name and first sentence are nearly those", other


def _parts(tool: NamedTool) -> Iterator[str]:
    """Yields the common parts of near names: without the last digits, or without one letter."""
    if tool.sentence:
        yield tool.name.rstrip(_DIGITS)
        yield tool.name
        yield from (tool.name[:i] + tool.name[i + 1 :] for i in range(len(tool.name)))


def _is_near(name: str, other: str) -> bool:
    if name.rstrip(_DIGITS) == other.rstrip(_DIGITS):
        return True
    longer = max(len(name), len(other))
    return longer >= _MIN_NAME and OSA.distance(name, other, score_cutoff=1) <= 1
