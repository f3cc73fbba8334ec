"""Makes third-party descriptions safe to be comments of generated code."""

import unicodedata

MAX_DOC_CHARS = 16_384
"""A longer description is cut, as for the search."""
_MAX_SENTENCE_CHARS = 120


def lines(text: str) -> list[str]:
    """Returns the lines of a text, without invisible characters and blank lines at either end."""
    if len(text) > MAX_DOC_CHARS:
        text = text[: MAX_DOC_CHARS - 1] + "…"
    shown = [_visible(line) for line in text.splitlines()]
    filled = [at for at, line in enumerate(shown) if line]
    return shown[filled[0] : filled[-1] + 1] if filled else []


def beginning(text: str) -> str:
    """Returns the first sentence of a description on one line, at most 120 characters."""
    flat = " ".join(text[: 4 * _MAX_SENTENCE_CHARS].split())
    end = flat.find(". ")
    flat = flat[:end] if end > 0 else flat
    return (
        flat if len(flat) <= _MAX_SENTENCE_CHARS else flat[: _MAX_SENTENCE_CHARS - 1].rstrip() + "…"
    )


def _visible(line: str) -> str:
    if line.isprintable():
        return line.rstrip()
    spaced = line.replace("\t", " ")
    return "".join(c for c in spaced if unicodedata.category(c)[0] != "C").rstrip()
