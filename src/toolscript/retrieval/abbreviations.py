"""Replaces abbreviations of developers in a question by the words that the tools have."""

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from toolscript.text.words import words

_TOKEN = re.compile(r"(?<![\w./@-])(?!Mr\b)\w+(?:/\w+)?(?![\w/@-]|\.\w)")
"""A word by itself: no title, and no part of an identifier, a path, an address or a file's name."""


@cache
def _long_forms() -> dict[str, list[str]]:
    """Returns the long forms of each abbreviation, the likeliest first."""
    return json.loads(Path(__file__).with_name("abbreviations.json").read_text("utf-8"))


def expand_abbreviations(text: str, knows: Callable[[str], bool]) -> tuple[str, dict[str, str]]:
    """Returns a text with long forms for the abbreviations that no document has, and these.

    ``knows`` says whether some document has a word: of a long form all words have to be known.
    """
    readings: dict[str, str] = {}

    def read(token: re.Match[str]) -> str:
        form = _long_form(token[0].casefold(), knows)
        if form and not token[0].casefold().startswith(form):
            readings[token[0]] = form
        return form or token[0]

    return _TOKEN.sub(read, text), readings


def _long_form(short: str, knows: Callable[[str], bool]) -> str:
    table = _long_forms()
    singular = short if short in table else short.removesuffix("s")
    if singular not in table:
        return ""
    if all(map(knows, words(singular))):
        return short if all(map(knows, words(short))) else singular  # "prs" has a stem of its own
    asked = {singular}  # what has other meanings too keeps its word: a ticket is an issue ticket
    forms = (form for form in table[singular] if all(map(knows, {*form.split()} - asked)))
    form = next(forms, "")
    if not form or singular == short:
        return form
    return f"{form[:-1]}ies" if form.endswith("y") else f"{form}s"
