"""Makes third-party descriptions safe to be comments of generated code."""

import unicodedata

MAX_DOC_CHARS = 16_384
"""A longer description is cut, as for the search."""


def lines(text: str) -> list[str]:
    """Returns the lines of a text, without invisible characters and blank lines at either end."""
    if len(text) > MAX_DOC_CHARS:
        text = text[: MAX_DOC_CHARS - 1] + "…"
    shown = [_visible(line) for line in text.splitlines()]
    filled = [at for at, line in enumerate(shown) if line]
    return shown[filled[0] : filled[-1] + 1] if filled else []


def _visible(line: str) -> str:
    if line.isprintable():
        return line.rstrip()
    spaced = line.replace("\t", " ")
    return "".join(c for c in spaced if unicodedata.category(c)[0] != "C").rstrip()
