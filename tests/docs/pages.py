"""The documentation's pages, taken apart for the tests."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from toolscript.surfaces.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_FENCE = re.compile(r"^```(?P<language>\S*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_NOTE = re.compile(r"<!-- (.*) -->\n\Z")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")
_OPERATORS = {"|", "||", "&&", ";", ">", ">>", "<", "&"}


def pages() -> list[Path]:
    """Every page, those beside the folder included."""
    beside = ("README.md", "CONTRIBUTING.md", "AGENTS.md", "CHANGELOG.md")
    found = [ROOT / name for name in beside if (ROOT / name).is_file()]
    return found + sorted(DOCS.rglob("*.md"))


def name_of(page: Path) -> str:
    """How a page is called in a test's id."""
    return page.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class Fence:
    """A block of code, with the comment on the line above it."""

    page: Path
    line: int
    language: str
    note: str
    text: str
    directly_after: bool
    """Nothing but white space lies between the block before and this one."""

    def __str__(self) -> str:
        return f"{name_of(self.page)}:{self.line}"

    @property
    def file(self) -> str:
        """The name under which the reader is told to save the block; empty if not at all."""
        return self.note.removeprefix("file: ") if self.note.startswith("file: ") else ""

    @property
    def runs(self) -> bool:
        """Whether the tests run the block. Console blocks only on request: some need a network."""
        if self.note == "frameworks":  # tests/integrations runs them, with the frameworks
            return False
        return (self.language == "python" and not self.file) or self.note == "run"


def fences(page: Path) -> list[Fence]:
    """Every block of code of a page."""
    text = page.read_text("utf-8")
    found: list[Fence] = []
    end = 0
    for match in _FENCE.finditer(text):
        between = text[end : match.start()]
        note = _NOTE.search(between)
        found.append(
            Fence(
                page=page,
                line=text.count("\n", 0, match.start()) + 1,
                language=match["language"],
                note=note[1] if note else "",
                text=match["text"],
                directly_after=bool(found) and not between.strip(),
            )
        )
        end = match.end()
    return found


def every_fence(*languages: str) -> list[Fence]:
    """Every block of code of all pages in one of these languages."""
    return [fence for page in pages() for fence in fences(page) if fence.language in languages]


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return _FENCE.sub("", page.read_text("utf-8"))


def links(page: Path) -> list[str]:
    """The targets of a page's links."""
    return _LINK.findall(_CODE.sub("", prose(page)))


def anchors(page: Path) -> set[str]:
    """What a link may name after ``#``: the headings, spelled as web addresses."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    spelled = (re.sub(r"[^\w\- ]", "", heading.casefold()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in spelled}


@dataclass(frozen=True)
class Mention:
    """A command line of ours on a page."""

    words: list[str]
    whole: bool
    """It is to be typed as it stands. In a sentence, what a command needs may be left out."""


def commands(page: Path) -> Iterator[Mention]:
    """Every command line of ours on a page, in blocks and in sentences."""
    shells = (fence for fence in fences(page) if fence.language in {"bash", "console"})
    blocks = [line.removeprefix("$ ") for fence in shells for line in fence.text.splitlines()]
    sentences = [code for code in _CODE.findall(prose(page)) if not set("<…") & set(code)]
    for lines, whole in ((blocks, True), (sentences, False)):
        for line in lines:
            words = _words(line)
            if words[:1] == ["toolscript"]:
                yield Mention(words[1:], whole)


def check_command(mention: Mention) -> None:
    """Fail unless the command and its flags exist, and where it is whole, can be called so."""
    command: click.Command = cli
    words = list(mention.words)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        child = command.get_command(click.Context(command), words[0])
        assert child is not None, f"{mention}: there is no command {words[0]}"
        command, words = child, words[1:]
    own = words[: words.index("--")] if "--" in words else words
    named = {word.partition("=")[0] for word in own if word.startswith("-")}
    known = {spelling for parameter in command.params for spelling in parameter.opts}
    assert named <= known | {"--help", "-h"}, mention
    if mention.whole and not isinstance(command, click.Group):
        command.make_context("toolscript", words)


def _words(line: str) -> list[str]:
    """The first command of a line, without the variables set before it."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return []
    cut = next((at for at, word in enumerate(words) if word in _OPERATORS), len(words))
    words = words[:cut]
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    return words
