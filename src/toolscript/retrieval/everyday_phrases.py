"""Translates everyday phrases into the words of tools: "remind me" becomes a task or an event.

The table is data (``everyday_phrases.json``). Its ``wishes`` are patterns of phrases, each with
texts in the words of tools, which may repeat a group of the pattern. Its ``commands`` have such
texts for command lines; those in ``ambiguous`` are words of sentences, too, unless an option or a
path follows. Its ``words`` replace single everyday words. Each text that results, a reading, is
ranked beside the question: see `pipeline.raise_readings`.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

MAX_READINGS = 3
"""The most readings of a question that are ranked."""
MAX_WORDS, MAX_CHARS = 14, 300
"""A longer question speaks for itself; and patterns are not for long texts."""
_WORD = re.compile(r"(?<![\w./@-])[a-z]+(?![\w/@-]|\.\w)")


_OPTION_OR_PATH = re.compile(r"--?\w|\.{0,2}(/|$)|~|\w+://|[\w*./-]*[\w*]\.[a-z]\w{0,4}$")
SHELL = "run a shell command"
"""The reading of every command line."""


class _Table(NamedTuple):
    wishes: list[tuple[re.Pattern[str], list[str]]]
    commands: dict[str, str]
    ambiguous: frozenset[str]
    words: dict[str, str]


@cache
def _table() -> _Table:
    raw = json.loads(Path(__file__).with_name("everyday_phrases.json").read_text("utf-8"))
    wishes = [(re.compile(pattern), texts) for pattern, texts in raw["wishes"]]
    return _Table(wishes, raw["commands"], frozenset(raw["ambiguous"]), raw["words"])


def read_expressions(text: str) -> tuple[str, ...]:
    """Returns the wishes of a question in the words of tools, at most `MAX_READINGS` texts."""
    plain = " ".join(text.casefold().split()).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    if plain.count(" ") >= MAX_WORDS or len(plain) > MAX_CHARS:
        return ()
    table = _table()
    matches = [(pattern.search(plain), texts) for pattern, texts in table.wishes]
    readings = _read_command_line(plain)
    readings += [match.expand(text) for match, texts in matches if match for text in texts]
    reworded = _WORD.sub(lambda word: table.words.get(word[0], word[0]), plain)
    readings += [reworded] if reworded != plain else []
    return tuple(dict.fromkeys(readings))[:MAX_READINGS]


def _read_command_line(plain: str) -> list[str]:
    """Returns the purpose of a command ("git st", "grep x src"), if it is one, and `SHELL`."""
    table, words = _table(), plain.removeprefix("$ ").split()
    names = (" ".join(words[:count]) for count in (3, 2, 1))
    name = next((name for name in names if name in table.commands), None)
    if name is None:
        return []
    if name in table.ambiguous and words[1:] and not _OPTION_OR_PATH.match(words[1]):
        return []
    return [text for text in (table.commands[name], SHELL) if text]
