"""Reads the wishes behind everyday expressions: "remind me" is a task or an event to a tool.

The table is data (``expressions.json``). Its *wishes* belong to patterns and are in the words that
tools have; a wish may repeat a group of its pattern. Its *words*
take the place of everyday ones in the question. Each reading is ranked beside the question: see
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
    raw = json.loads(Path(__file__).with_name("expressions.json").read_text("utf-8"))
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
