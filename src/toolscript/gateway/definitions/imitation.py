"""Finds tools whose names imitate a tool of another server."""

from collections.abc import Iterable, Iterator

from rapidfuzz.distance import OSA

from toolscript.text.words import compact, first_sentence
from toolscript.types import ToolSpec

_MAX_NAME = 128
_MIN_SERVER = 4
"""Letters of a server's name that is looked for before a tool's."""
_MIN_NAME = 8
"""Letters of a name one letter off; shorter honest ones differ by one: ``list`` and ``lint``."""
_MIN_SENTENCE = 20
"""Letters of a first sentence; shorter ones, such as ``List issues``, are alike by chance."""
_MAX_KEPT = 4
_MAX_KEPT_OF_NAME = 2
"""Tools under one key of an index, each of another server: many like ones take no longer."""

_DIGITS = "0123456789"
_LOOKS = str.maketrans(
    "01i\u0131\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u04bb\u0501\u051b\u051d"
    "\u0432\u043a\u043c\u043d\u0442\u03b1\u03b2\u03b5\u03b9\u03ba\u03bc\u03bd\u03bf\u03c1\u03c4\u03c7",
    "olllaeopcyxsljhdqwbkmhtabelkmvoptx",
)
"""What a digit, or a Cyrillic or Greek letter, looks like; i and l are one."""


class NamedTool:
    """A tool's name as it is compared."""

    def __init__(self, tool: ToolSpec) -> None:
        self.spec = tool
        self.server = compact(tool.server)
        self.name = compact(tool.name)[:_MAX_NAME]
        self.looks = self.name.translate(_LOOKS)
        sentence = compact(first_sentence(tool.description.strip()))
        self.sentence = sentence if len(sentence) >= _MIN_SENTENCE else ""

    def rivals(self, others: Iterable["NamedTool"]) -> Iterator["NamedTool"]:
        """Yields those of servers with quite another name whose own names are not the same."""
        for other in others:
            alike = self.server in other.server or other.server in self.server
            if not alike and self.name != other.name:
                yield other


Pair = tuple[NamedTool, str, NamedTool]
"""A tool, what its name is like, and the tool that it imitates."""


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


def imitated(tools: Iterable[ToolSpec]) -> Iterator[Pair]:
    """Yields tools that imitate another, the surest signs first; a tool may come several times."""
    named = [NamedTool(tool) for tool in tools]
    yield from _lookalikes(named)
    yield from _prefixed(named)
    yield from _near(named)


def _lookalikes(tools: list[NamedTool]) -> Iterator[Pair]:
    index = _Index()
    for tool in tools:
        index.add(tool, tool.looks)
    for tool in tools:
        if not tool.name.isascii() or not {"0", "1"}.isdisjoint(tool.name):
            for other in tool.rivals(index.get(tool.looks)):
                yield tool, "name looks like that", other


def _prefixed(tools: list[NamedTool]) -> Iterator[Pair]:
    index = _Index()
    for tool in tools:
        if len(tool.server) >= _MIN_SERVER:
            index.add(tool, tool.server + tool.name)
    for tool in tools:
        for other in tool.rivals(index.get(tool.name)):
            yield tool, "name puts the server's before that", other


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
    """Yields what near names share: a name without its last digits, or without one letter."""
    if tool.sentence:
        yield tool.name.rstrip(_DIGITS)
        yield tool.name
        yield from (tool.name[:i] + tool.name[i + 1 :] for i in range(len(tool.name)))


def _is_near(name: str, other: str) -> bool:
    if name.rstrip(_DIGITS) == other.rstrip(_DIGITS):
        return True
    longer = max(len(name), len(other))
    return longer >= _MIN_NAME and OSA.distance(name, other, score_cutoff=1) <= 1
