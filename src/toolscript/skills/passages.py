"""Cuts a long text into passages that a model reads whole.

A text is cut at its headings, and within a section between paragraphs; only a
paragraph that is too long by itself is cut between lines, sentences or words.
"""

import re
from collections.abc import Iterable, Iterator

import msgspec

from toolscript.text.display import printable

MAX_CHARS = 800
"""The length of a passage: some 200 tokens, which the bundled model reads to the end."""
MAX_PASSAGES = 1_000
"""Passages indexed per file; the rest of a longer file is ignored."""
_HEADING_CHARS = 200
_HEADING_LEVELS = 6
_FENCE = re.compile(r"[ \t]*(```|~~~)")
_BREAKS = ("\n", ". ", "? ", "! ", "; ", " ")
"""The places to cut a long paragraph, the best first."""


class Passage(msgspec.Struct, frozen=True, gc=False):
    """A piece of a text, and the headings that it stands under, outermost first."""

    heading: str
    text: str

    @property
    def full_text(self) -> str:
        """The headings, and the text below them."""
        return f"{self.heading}\n{self.text}".strip()


def split(text: str, most: int = MAX_CHARS, *, headings: bool = True) -> tuple[Passage, ...]:
    """Returns a text's passages in order: at most `MAX_PASSAGES`, of ``most`` characters each.

    Without ``headings`` a line that begins with ``#`` is a line like any other.
    """
    found: list[Passage] = []
    for heading, section in _sections(text) if headings else [("", text)]:
        for piece in _pack(_paragraphs(section, most), most):
            found.append(Passage(heading, piece))
            if len(found) == MAX_PASSAGES:
                return tuple(found)
    return tuple(found)


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Yields each heading with its text, up to the next one; code is no heading."""
    titles: dict[int, str] = {}
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1] == fence):
            fence = "" if fence else mark[1]
        level = 0 if fence else _heading_level(line)
        if not level:
            lines.append(line)
            continue
        yield _title(titles), "\n".join(lines)
        lines = []
        titles = {depth: title for depth, title in titles.items() if depth < level}
        titles[level] = printable(_heading_text(line), _HEADING_CHARS)
    yield _title(titles), "\n".join(lines)


def _heading_level(line: str) -> int:
    """1 to 6 for a heading, 0 for any other line."""
    level = len(line) - len(line.lstrip("#"))
    return level if level <= _HEADING_LEVELS and line[level : level + 1] in {" ", "\t"} else 0


def _heading_text(line: str) -> str:
    """Returns a heading's text. No pattern: one that strips both ends takes cubic time at worst."""
    return line.lstrip("#").strip(" \t").rstrip("#").rstrip(" \t")


def _title(titles: dict[int, str]) -> str:
    return " > ".join(title for title in titles.values() if title)


def _paragraphs(section: str, most: int) -> Iterator[str]:
    for block in re.split(r"\n[ \t]*(?:\n[ \t]*)+", section):
        paragraph = block.strip("\n")
        if paragraph.strip():
            yield from _split_paragraph(paragraph.rstrip(), most)


def _split_paragraph(paragraph: str, most: int) -> Iterator[str]:
    """The paragraph, or pieces of it that are short enough."""
    while len(paragraph) > most:
        ends = (paragraph.rfind(each, most // 2, most) for each in _BREAKS)
        end = next((found + 1 for found in ends if found > 0), most)
        yield paragraph[:end].rstrip()
        paragraph = paragraph[end:].lstrip()
    if paragraph:
        yield paragraph


def _pack(paragraphs: Iterable[str], most: int) -> Iterator[str]:
    """Paragraphs put together as long as they fit."""
    pack = ""
    for paragraph in paragraphs:
        if pack and len(pack) + 2 + len(paragraph) > most:
            yield pack
            pack = ""
        pack = f"{pack}\n\n{paragraph}" if pack else paragraph
    if pack:
        yield pack
