"""Finds texts of a definition that hide something, or ask for actions that a user may not want."""

import re
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, cast

from toolscript.gateway.definitions.note import MAX_QUOTE, Note, NoteKind, quoted
from toolscript.text.wire_constants import CALLS
from toolscript.text.words import compact
from toolscript.types import SEPARATOR, ToolSpec

MAX_NODES = 5_000
MAX_DEPTH = 128
"""Values and levels of a definition's JSON that are looked at, those near the top first."""
MAX_CHARS = 1_048_576
"""Characters of a definition that are looked at."""
_MAX_PLACE = 80
_MIN_SERVER = 4
"""Letters of another server's name; a shorter one is part of too many words."""

_EMOJI = (
    r"#*0-9\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299"
    r"\U0001f000-\U0001faff"
)
_JOINED = (
    r"\u0590-\u10ff\u1780-\u18af\u1a00-\u1cff\ua800-\uabff\ufb1d-\ufdff\ufe70-\ufefe"
    r"\U00011000-\U00011fff"
)
"""Scripts whose words need joiners: Arabic, those of India, Khmer, Mongolian and others."""
_GAP = r"\u200c\u200d"
_HONEST = re.compile(
    rf"""
    \A\ufeff                                                    # a file's first character
    | (?<=[{_EMOJI}]) [\ufe0e\ufe0f] \u20e3?                      # an emoji, or its plain form
    | (?<=[{_EMOJI}\ufe0f]) \u200d (?=[{_EMOJI}])               # emoji joined to one picture
    | \U0001f3f4 [\U000e0030-\U000e007a]{{1,6}} \U000e007f      # the flag of a part of a country
    | (?<=[{_JOINED}]) [{_GAP}] | [{_GAP}] (?=[{_JOINED}])      # within words; also after "PDF"
    | (?<=[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]) \u200b     # between words without spaces
    | (?<=[\u1820-\u18aa]) [\u180b-\u180f]                      # forms of Mongolian letters
    | (?<=[\u3400-\u9fff\U00020000-\U0003ffff]) [\ufe00-\ufe02\U000e0100-\U000e01ef]
    """,
    re.VERBOSE,
)
"""Invisible characters as people who write in these scripts put them; never three in a row."""
_HIDDEN = re.compile(
    r"[\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2064\u206a-\u206f"
    r"\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff]"
)
_BIDI = re.compile(r"[\u202a-\u202e\u2066-\u2069]")
_ANSI = re.compile(r"\x1b|\x9b[\d;?]*[@-~]|[\x90\x9d]")
_COMMENT = re.compile(r"<!--(?!\s*-->)")
_CALLED_WITH = re.compile(rf"\[(?:{'|'.join(CALLS.values())})\]")
"""The brackets in which a search names the tool that calls a tool."""

# Phrases. They are looked for in a text of one line, without quotation marks and emphasis.
_NOT = r"(?:do not|don't|dont|never|must not|mustn't|should not|shouldn't|not to)(?: ever)?"
_USE = r"(?:(?:us|call|invok|runn?|execut|touch)(?:e|ing)? )"
_OTHER = (
    r"(?:any|all|every|each|the)?(?: of)?(?: the)? ?other (?:mcp )?(?:tool|server|function)s?\b"
)
_OTHER_TOOLS = re.compile(
    rf"\b(?:(?:before|prior to) (?:you )?{_USE}?"
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
    r"|(?:keep|hide|conceal) (?:this|that|it|these|them|your|the fact)\b"
    rf"[^.!?]{{0,40}} from {_USER}"
    r"|user (?:must|should|may)(?: not|n't| never) "
    r"(?:know (?:about|of|that)|notice|be told|find out)"
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
    r"|\b(?:read|open|cat|send|upload|include|pass|contents? of) (?:[^.!?]|\.(?=[\w./])){0,40}"
    r"(?<![\w.])\.env\b(?!\.(?:example|sample|template|dist))",
    re.IGNORECASE,
)
_PLAIN = str.maketrans("\u2019", "'", '*`"\u201c\u201d')


def definition_notes(tool: ToolSpec, servers: Collection[str] = ()) -> tuple[Note, ...]:
    """Returns the unusual texts of a tool's definition, at most one note of each kind.

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
            notes.setdefault(kind, Note.of(kind, f"{place} {message}."))
        left = max(0, left - len(text))
    return tuple(notes.values())


def findings(text: str, others: Mapping[str, str]) -> Iterator[tuple[NoteKind, str]]:
    """Yields the kind of each finding in a text, and its description, which follows the place."""
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
    if other := _OTHER_TOOLS.search(line) or _find_server(line, others):
        yield "other-tools", f"says when other tools may be used: {_excerpt(line, other)}"
    elif forged := _CALLED_WITH.search(line):
        yield "other-tools", f"has brackets as in an answer of a search: {_excerpt(line, forged)}"
    if hiding := next(filter(lambda match: _is_asked(line, match), _HIDING.finditer(line)), None):
        yield "hiding", f"speaks of hiding something from the user: {_excerpt(line, hiding)}"
    if path := _CREDENTIALS.search(line):
        yield "credentials", f"names a file that holds credentials: {_excerpt(line, path)}"


def _invisible(hidden: list[str]) -> str:
    spelled = "".join(chr(ord(c) - 0xE0000) for c in hidden if "\U000e0020" <= c < "\U000e007f")
    says = f", which spell {quoted(spelled)}" if spelled else ""
    return f"has characters that cannot be seen ({_code_points(hidden)}){says}"


def _code_points(characters: list[str]) -> str:
    most = Counter(characters).most_common(3)
    return ", ".join(f"{count} of U+{ord(each):04X}" for each, count in most)


def _excerpt(text: str, match: re.Match[str]) -> str:
    """Quotes the words of a match, and some before and after it."""
    near = max(0, match.start() - 20)
    begin = near and (text.find(" ", near, match.start()) + 1 or match.start())
    return quoted(text[begin : begin + 2 * MAX_QUOTE])


def _is_asked(line: str, match: re.Match[str]) -> bool:
    """Whether a phrase is meant as it stands, and not "never … without telling the user"."""
    before = line[max(0, match.start() - 80) : match.start()]
    return not (match[0].lower().startswith("without") and _REFUSED.search(before))


def _find_server(line: str, others: Mapping[str, str]) -> re.Match[str] | None:
    """Finds a phrase that says to use, or not to use, another server or a tool of it."""
    letters = compact(line)
    for name in (each for each, looked_for in others.items() if looked_for in letters):
        spelled = "[-_ ]".join(map(re.escape, re.split(r"[-_ ]+", name)))
        found = re.search(
            rf"\b(?:mcp__)?{spelled}{SEPARATOR}\w"
            rf"|\b(?:before|instead of|rather than|{_NOT}) {_USE}?(?:any |all )?(?:of )?(?:the )?"
            rf"{spelled}(?:'s)?(?: mcp)? (?:server|tools\b|mcp)"
            rf"|\btools? (?:of|from|on) (?:the )?{spelled}(?: mcp)? server\b",
            line,
            re.IGNORECASE,
        )
        if found:
            return found
    return None


def _others(servers: Iterable[str], own: str) -> Iterator[tuple[str, str]]:
    """Yields the names that are long enough to be looked for, and no variants of the own name."""
    for name in servers:
        letters = compact(name)
        if len(letters) >= _MIN_SERVER and letters not in own and own not in letters:
            yield name, letters


def _texts(tool: ToolSpec) -> Iterator[tuple[str, str]]:
    """Yields the name of each place of a definition and its text, from the top down."""
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
    """Yields the members of a value, and their names, which a model reads as well."""
    if isinstance(value, list):
        yield from (("", child) for child in cast("list[Any]", value))
    elif isinstance(value, dict):
        for key, child in cast("dict[Any, Any]", value).items():
            yield "", str(key)
            yield str(key), child
