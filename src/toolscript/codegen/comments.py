"""Third-party descriptions, as text that ends no comment and steers no tool that reads it."""

import unicodedata

MAX_DOC_CHARS = 16_384
"""Longer descriptions are cut, as in a search."""
_SENTENCE = 120


def lines(text: str) -> list[str]:
    """The text by lines, without what cannot be seen and without blank ends."""
    if len(text) > MAX_DOC_CHARS:
        text = text[: MAX_DOC_CHARS - 1] + "…"
    found = [_visible(line) for line in text.splitlines()]
    while found and not found[-1]:
        found.pop()
    while found and not found[0]:
        del found[0]
    return found


def beginning(text: str) -> str:
    """What a description begins with, on one line, for those who pay by the word."""
    flat = " ".join(text[: 4 * _SENTENCE].split())
    end = flat.find(". ")
    flat = flat[:end] if end > 0 else flat
    return flat if len(flat) <= _SENTENCE else flat[: _SENTENCE - 1].rstrip() + "…"


def _visible(line: str) -> str:
    if line.isprintable():
        return line.rstrip()
    kept = (" " if c == "\t" else c for c in line)
    return "".join(c for c in kept if unicodedata.category(c)[0] != "C").rstrip()
