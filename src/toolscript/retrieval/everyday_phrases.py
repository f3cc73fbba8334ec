"""Translates everyday phrases into the words of tools: "remind me" becomes a task or an event.

The table is data (``everyday_phrases.json``). Its ``wishes`` are patterns of phrases, each with
texts in the words of tools, which may repeat a group of the pattern. Its ``words`` replace single
everyday words. Each text that results, a reading, is ranked beside the question: see
`pipeline.raise_readings`.
"""

import json
import re
from functools import cache
from pathlib import Path

MAX_READINGS = 3
"""The most readings of a question that are ranked."""
MAX_WORDS, MAX_CHARS = 14, 300
"""A longer question speaks for itself; and patterns are not for long texts."""
_WORD = re.compile(r"(?<![\w./@-])[a-z]+(?![\w/@-]|\.\w)")


@cache
def _table() -> tuple[list[tuple[re.Pattern[str], list[str]]], dict[str, str]]:
    raw = json.loads(Path(__file__).with_name("everyday_phrases.json").read_text("utf-8"))
    return [(re.compile(pattern), wishes) for pattern, wishes in raw["wishes"]], raw["words"]


def read_expressions(text: str) -> tuple[str, ...]:
    """Returns the wishes of a question in the words of tools, at most `MAX_READINGS` texts."""
    plain = " ".join(text.casefold().split()).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    if plain.count(" ") >= MAX_WORDS or len(plain) > MAX_CHARS:
        return ()
    wishes, meanings = _table()
    matches = [(pattern.search(plain), texts) for pattern, texts in wishes]
    readings = [match.expand(text) for match, texts in matches if match for text in texts]
    reworded = _WORD.sub(lambda word: meanings.get(word[0], word[0]), plain)
    readings += [reworded] if reworded != plain else []
    return tuple(dict.fromkeys(readings))[:MAX_READINGS]
