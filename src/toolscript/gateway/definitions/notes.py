"""Notes for a person who reviews a tool: what its definition says that most do not.

A note is no verdict, and nothing is blocked because of one. The checks are exact and narrow:
honest definitions rarely get a note, and whoever knows the checks can write around them.
"""

import re
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any, Literal, cast

import msgspec
from rapidfuzz.distance import OSA

from toolscript.text.display import printable
from toolscript.text.words import compact, first_sentence
from toolscript.types import SEPARATOR, ToolSpec

NoteKind = Literal[
    "invisible", "bidi", "ansi", "comment", "other-tools", "hiding", "credentials", "imitates"
]

MAX_NODES = 5_000
MAX_DEPTH = 128
"""Values and levels of a definition's JSON that are looked at, those near the top first."""
MAX_CHARS = 1_048_576
"""Characters of a definition that are looked at."""
MAX_NOTE_CHARS = 300
_MAX_QUOTE = 80
_MAX_PLACE = 80

_MIN_SERVER = 4
"""Letters of another server's name; a shorter one is part of too many words."""
_MIN_NAME = 8
"""Letters of a name one letter off; shorter honest ones differ by one: ``list`` and ``lint``."""
_MIN_SENTENCE = 20
"""Letters of a first sentence; shorter ones, such as ``List issues``, are alike by chance."""
_MAX_KEPT = 4
"""Tools under one key of an index, each of another server: many equal ones take no longer."""


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
    others = [name for name in servers if _is_other(name, tool.server)]
    notes: dict[str, Note] = {}
    left = MAX_CHARS
    for place, text in _texts(tool):
        for kind, message in _findings(text[:left], others):
            notes.setdefault(kind, _note(kind, f"{place} {message}."))
        left = max(0, left - len(text))
    return tuple(notes.values())


def imitations(tools: Iterable[ToolSpec]) -> dict[str, Note]:
    """Returns a note for each tool whose name imitates a tool of another server, by tool id.

    Many servers have a ``search`` or a ``read_file``, so equal names are no reason. These are:

    - a name that looks like another: letters of another script, or digits for letters;
    - a name that consists of another server's name and that of one of its tools;
    - a name one letter off (of at least 8), or with digits appended, where both descriptions
      begin with the same sentence.

    Takes time in proportion to the number of tools and the length of their names.
    """
    named = [_Named(tool) for tool in tools]
    pairs = (*_lookalikes(named), *_prefixed(named), *_near(named))
    notes: dict[str, Note] = {}
    for tool, how, other in pairs:
        label = f"{_quoted(other.name)} of server {_quoted(other.server)}"
        notes.setdefault(tool.id, _note("imitates", f"Its name {how} the tool {label}."))
    return notes


def _note(kind: NoteKind, text: str) -> Note:
    return Note(kind, printable(text, MAX_NOTE_CHARS))


def _quoted(text: str) -> str:
    return f"“{printable(text, _MAX_QUOTE)}”"


def _is_other(server: str, own: str) -> bool:
    """Whether a server's name is long enough to be looked for, and no variant of the own name."""
    letters, mine = compact(server), compact(own)
    return len(letters) >= _MIN_SERVER and letters not in mine and mine not in letters


# Where the texts are.


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
                short = len(place) + len(key) < _MAX_PLACE
                waiting.append((f"{place}/{key}" if short else place, depth + 1, child))


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields what is inside a value, and the names there, which a model reads as well."""
    if isinstance(value, list):
        yield from (("", child) for child in cast("list[Any]", value))
    elif isinstance(value, dict):
        for key, child in cast("dict[Any, Any]", value).items():
            yield "", str(key)
            yield str(key), child


# Characters.

_EMOJI = r"#*0-9\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_JOINED = r"\u0590-\u10ff\u1780-\u18af\u1a00-\u1cff\ua800-\uabff\ufb1d-\ufdff\ufe70-\ufefe\U00011000-\U00011fff"
"""Scripts whose words need joiners: from Hebrew to Myanmar, Khmer, Mongolian and others."""
_GAP = r"\u200c\u200d"
_HONEST = re.compile(
    rf"""
    (?<=[{_EMOJI}]) [\ufe0e\ufe0f] \u20e3?                      # an emoji, or its plain form
    | (?<=[{_EMOJI}\ufe0f]) \u200d (?=[{_EMOJI}])               # emoji joined to one picture
    | \U0001f3f4 [\U000e0030-\U000e007a]{{1,6}} \U000e007f      # the flag of a part of a country
    | (?<=[{_JOINED}]) [{_GAP}] | [{_GAP}] (?=[{_JOINED}])      # within words; also after "PDF"
    | (?<=[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]) \u200b     # between words without spaces
    | (?<=[\u1820-\u18aa]) [\u180b-\u180f]                      # forms of Mongolian letters
    | (?<=[\u3400-\u9fff\U00020000-\U0003ffff]) [\ufe00-\ufe02\U000e0100-\U000e01ef]
    """,
    re.VERBOSE,
)
"""Invisible characters where people who write in these scripts put them; never two in a row."""
_HIDDEN = re.compile(
    r"[\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2064\u206a-\u206f"
    r"\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff]"
)
_BIDI = re.compile(r"[\u202a-\u202e\u2066-\u2069]")
_ANSI = re.compile(r"\x1b|\x9b[\d;?]*[@-~]|[\x90\x9d]")
_COMMENT = re.compile(r"<!--(?!\s*-->)")


# Phrases. They are matched against one line in which quotes and emphasis are dropped.

_NOT = r"(?:do not|don't|dont|never|must not|mustn't|should not|shouldn't|not to)(?: ever)?"
_USE = r"(?:(?:us|call|invok|runn?|execut|touch)(?:e|ing)? )"
_OTHER = r"(?:any|all|every|each|the)?(?: of)?(?: the)? ?other (?:mcp )?(?:tool|server|function)s?\b"
_OTHER_TOOLS = re.compile(
    rf"\b(?:(?:before|prior to|whenever|each time|every time) (?:you )?{_USE}?"
    rf"|{_NOT} {_USE}"
    rf"|(?:instead of|rather than|in place of) {_USE}?"
    rf"|(?:ignore|disregard|override|supersedes?|replaces?|disables?|over) )"
    rf"{_OTHER}(?! (?:calls? )?(?:of|on|in|from|for|by) (?:this|our|the same))",
    re.IGNORECASE,
)
_USER = r"(?:the |your |any )?(?:end[- ]?)?(?:user|human|person|anyone|anybody|operator)\b"
_THIS = r"(?:this|that you|these instructions|these steps|any of this|it to)\b"
_HIDING = re.compile(
    rf"\b(?:{_NOT} (?:tell|inform|alert|warn) {_USER}"
    rf"|{_NOT} (?:mention|reveal|disclose) {_THIS}"
    rf"|{_NOT} (?:mention|reveal|disclose|report|explain)\b[^.!?]{{0,60}} to {_USER}"
    rf"|without (?:telling|informing|alerting|warning) {_USER}"
    rf"|without {_USER}(?:'s)? (?:knowing|noticing|knowledge|awareness)"
    rf"|(?:keep|hide|conceal) (?:this|that|it|these|them|your|the fact)\b[^.!?]{{0,40}} from {_USER}"
    rf"|user (?:must|should|may)(?: not|n't| never) (?:know (?:about|of|that)|notice|be told|find out)"
    r"|secretly (?:send|read|pass|include|copy|forward|add|store|upload|collect|call|use))",
    re.IGNORECASE,
)
_REFUSED = re.compile(r"\b(?:not|never|cannot|avoid|n't)\b[^.!?,;]*\Z", re.IGNORECASE)
"""Before "without informing the user", it asks for the opposite."""
_CREDENTIALS = re.compile(
    r"\.ssh/|~/\.ssh\b|\bid_(?:rsa|dsa|ecdsa|ed25519)\b|\.aws/(?:credentials|config)\b"
    r"|/etc/(?:shadow|passwd)\b|\.(?:netrc|npmrc|pypirc|pgpass|git-credentials|gnupg)\b"
    r"|\.kube/config\b|\.docker/config\.json|\.config/gh/hosts|\.config/gcloud"
    r"|application_default_credentials\.json|\bmcp\.json\b|claude_desktop_config\.json"
    r"|/proc/self/environ|\.bash_history\b|\blogin\.keychain"
    r"|\b(?:read|open|cat|send|upload|include|pass|contents? of) [^.!?]{0,40}"
    r"(?<![\w.])\.env\b(?!\.(?:example|sample|template|dist))",
    re.IGNORECASE,
)
_PLAIN = str.maketrans("’", "'", "*`\"“”")


def _findings(text: str, others: Collection[str]) -> Iterator[tuple[NoteKind, str]]:
    """Yields the kind of each finding in a text, and what to say of it after its place."""
    if not text.isascii():
        if hidden := _HIDDEN.findall(_HONEST.sub("", text)):
            yield "invisible", _invisible(hidden)
        if marks := _BIDI.findall(text):
            yield "bidi", f"changes the direction in which text is shown ({_code_points(marks)})"
    if _ANSI.search(text):
        yield "ansi", "has control sequences for a terminal"
    if comment := _COMMENT.search(text):
        yield "comment", f"has an HTML comment: {_excerpt(text, comment)}"
    line = " ".join(text.translate(_PLAIN).split())
    if other := _OTHER_TOOLS.search(line) or _named_server(line, others):
        yield "other-tools", f"speaks of other servers' tools: {_excerpt(line, other)}"
    if hiding := next(filter(lambda match: _is_asked(line, match), _HIDING.finditer(line)), None):
        yield "hiding", f"speaks of hiding something from the user: {_excerpt(line, hiding)}"
    if path := _CREDENTIALS.search(line):
        yield "credentials", f"names a file that holds credentials: {_excerpt(line, path)}"


def _invisible(hidden: list[str]) -> str:
    spelled = "".join(chr(ord(c) - 0xE0000) for c in hidden if 0xE0020 <= ord(c) < 0xE007F)
    says = f", which spell {_quoted(spelled)}" if spelled else ""
    return f"has characters that cannot be seen ({_code_points(hidden)}){says}"


def _code_points(characters: list[str]) -> str:
    most = Counter(characters).most_common(3)
    return ", ".join(f"{count} of U+{ord(each):04X}" for each, count in most)


def _excerpt(text: str, match: re.Match[str]) -> str:
    """Quotes the words of a match, and some before and after it."""
    begin = max(0, match.start() - 20)
    return _quoted(text[begin : begin + 2 * _MAX_QUOTE])


def _is_asked(line: str, match: re.Match[str]) -> bool:
    """Whether a phrase is meant as it stands, and not "never … without telling the user"."""
    before = line[max(0, match.start() - 80) : match.start()]
    return not (match[0].lower().startswith("without") and _REFUSED.search(before))


def _named_server(line: str, others: Collection[str]) -> re.Match[str] | None:
    """Finds what says to use, or not to use, another server or a tool of it."""
    letters = compact(line)
    for name in (each for each in others if compact(each) in letters):
        spelled = "[-_ ]".join(map(re.escape, re.split(r"[-_ ]+", name)))
        found = re.search(
            rf"\b(?:mcp__)?{spelled}{SEPARATOR}\w"
            rf"|\b(?:before|instead of|rather than|{_NOT}) {_USE}?(?:any |all )?(?:of )?(?:the )?"
            rf"{spelled}(?:'s)?(?: mcp)? (?:server|tools\b|mcp)"
            rf"|\b(?:tools?) (?:of|from|on) (?:the )?{spelled}(?: mcp)? server\b",
            line,
            re.IGNORECASE,
        )
        if found:
            return found
    return None


# Names.


class _Named:
    """A tool's name as it is compared."""

    def __init__(self, tool: ToolSpec) -> None:
        self.id = tool.id
        self.server = tool.server
        self.name = tool.name
        self.letters = compact(tool.name)
        self.owner = compact(tool.server)
        sentence = compact(first_sentence(tool.description.strip()))
        self.sentence = sentence if len(sentence) >= _MIN_SENTENCE else ""
        self.looks = self.letters.translate(_LOOKS)

    def imitates(self, other: "_Named") -> bool:
        """Whether the other is a tool of another server, and has another name."""
        alike = self.owner in other.owner or other.owner in self.owner
        return not alike and self.letters != other.letters


_LOOKS = str.maketrans("01iаеорсухѕіјһԁԛԝοναικ", "ollaeopcyxsljhdqwovailk"[:22])
_Pair = tuple[_Named, str, _Named]


def _keep(index: dict[Any, list[_Named]], key: object, tool: _Named) -> None:
    kept = index.setdefault(key, [])
    if len(kept) < _MAX_KEPT and all(each.server != tool.server for each in kept):
        kept.append(tool)


def _lookalikes(tools: Iterable[_Named]) -> Iterator[_Pair]:
    index: dict[Any, list[_Named]] = {}
    for tool in tools:
        _keep(index, tool.looks, tool)
    for tool in tools:
        if not tool.letters.isascii() or "0" in tool.letters or "1" in tool.letters:
            others = filter(tool.imitates, index[tool.looks])
            yield from ((tool, "looks like", other) for other in others)


def _prefixed(tools: Iterable[_Named]) -> Iterator[_Pair]:
    index: dict[Any, list[_Named]] = {}
    for tool in tools:
        if len(tool.owner) >= _MIN_SERVER:
            _keep(index, tool.owner + tool.letters, tool)
    for tool in tools:
        others = filter(tool.imitates, index.get(tool.letters, ()))
        yield from ((tool, "reads like", other) for other in others)


def _near(tools: Iterable[_Named]) -> Iterator[_Pair]:
    """Compares the names of tools whose descriptions begin with the same sentence."""
    index: dict[Any, list[_Named]] = {}
    for tool in tools:
        for part in _parts(tool):
            _keep(index, (tool.sentence, part), tool)
    for tool in tools:
        for other in (each for part in _parts(tool) for each in index[tool.sentence, part]):
            if tool.imitates(other) and _is_near(tool.letters, other.letters):
                yield tool, "and its first sentence are nearly those of", other


def _parts(tool: _Named) -> Iterator[str]:
    """Yields what near names share: the name without digits at its end, or without one letter."""
    if tool.sentence:
        name = tool.letters
        yield name.rstrip("0123456789")
        yield name
        if len(name) >= _MIN_NAME - 1:
            yield from (name[:i] + name[i + 1 :] for i in range(min(len(name), 128)))


def _is_near(name: str, other: str) -> bool:
    if name.rstrip("0123456789") == other.rstrip("0123456789"):
        return True
    return max(len(name), len(other)) >= _MIN_NAME and OSA.distance(name, other, score_cutoff=1) <= 1
