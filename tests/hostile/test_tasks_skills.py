"""Hostile files in a folder of skills: they cost themselves, and nothing else."""

import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import READ_FILE, Cli, Running, Scripted, fetch, running, until, write_config
from toolscript.bootstrap import Wiring
from toolscript.errors import SkillError
from toolscript.skills.confined_reader import ConfinedReader
from toolscript.skills.front_matter import read_front_matter
from toolscript.skills.passages import split
from toolscript.skills.scanner import SkillCatalogue, SkillScanner
from toolscript.surfaces.cli.types_command import table_cell
from toolscript.text.plain_yaml import MAX_DEPTH, parse

TAGS = ["!!bool foo", "!!int ''", "!!float ''", "!!timestamp x", "!!binary '%'", "!!set x", "!x y"]
GOOD = "---\nname: good\ndescription: How to water the lawn.\n---\nBefore sunrise.\n"
MERGES = "\n".join(
    [f"b0: &b0 {{{', '.join(f'k{n}: v' for n in range(9))}}}"]
    + [f"b{n}: &b{n} {{<<: [{', '.join([f'*b{n - 1}'] * 9)}]}}" for n in range(1, 10)]
)
"""Some 450 bytes; merged, they are 9 to the power of 10 entries."""


def front(text: str) -> str:
    return f"---\nname: bad\ndescription: {text}\n---\nbody\n"


def put(folder: Path, name: str, text: str) -> None:
    """A skill, moved into place as a whole."""
    (folder / name).mkdir(parents=True)
    beside = folder.parent / f"{name}.new"
    beside.write_text(text, "utf-8")
    beside.rename(folder / name / "SKILL.md")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / ".claude" / "skills"
    put(folder, "good", GOOD)
    return folder


@pytest.fixture
def now(folder: Path, tmp_path: Path, scripted: Scripted) -> Generator[Running]:
    """An application with a server that follows its skills."""
    config = write_config(tmp_path / "servers.json", {"files": scripted(READ_FILE)})
    with running(config, wiring=Wiring(follow=True)) as now:
        now.wait_for("files", "ready")
        until(
            lambda: now.app.skills().report().ready and now.app.skills().all(), "skills are there"
        )
        yield now


def names(now: Running) -> list[str]:
    return [skill.name for skill in now.app.skills().all()]


@pytest.mark.parametrize("text", TAGS)
def test_h1_a_tag_is_one_problem_of_one_file(text: str) -> None:
    with pytest.raises(SkillError, match=r"tags \(!\) are not allowed"):
        read_front_matter(front(text))


def test_h1_a_file_that_cannot_be_read_costs_no_server_and_no_other_skill(
    now: Running, folder: Path
) -> None:
    for number, text in enumerate([*TAGS, "*x", f"x\n{MERGES}", "[" * 9000]):
        put(folder, f"bad{number}", front(text))
    until(lambda: len(now.app.skills().report().problems) == len(TAGS) + 3, "each is a problem")
    assert names(now) == ["good", "toolscript"]
    arguments: dict[str, Any] = {}
    assert now.portal.call(now.app.call, "files__read_file", arguments)
    put(folder, "later", GOOD.replace("good", "later"))
    until(lambda: "later" in names(now), "skills are still followed")
    assert now.status("files").state == "ready"


OUT_OF_STACK = """
import sys
from pathlib import Path
from toolscript.skills.scanner import SkillCatalogue, SkillScanner
sys.setrecursionlimit(90)
catalogue = SkillScanner().scan([Path(sys.argv[1])], SkillCatalogue())
print(list(catalogue.skills), *catalogue.problems)
"""


def test_h1_what_nobody_thought_of_is_contained_in_its_file(folder: Path) -> None:
    """Whatever reading a file raises: here the stack is too small for what it nests."""
    put(folder, "bad", front(f"{'[' * 30}{']' * 30}"))
    command = [sys.executable, "-c", OUT_OF_STACK, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("['good']")
    assert "bad/SKILL.md: it could not be read (RecursionError); the log says why" in done.stdout
    assert "RecursionError" in done.stderr


def test_h1b_all_files_together_are_bounded(folder: Path) -> None:
    """Each of a size that is allowed: a repository could fill the memory with them."""
    for number in range(70):
        with (folder / f"large{number:02}.md").open("wb") as file:
            file.truncate(1024**2)
    catalogue = SkillScanner().scan([folder], SkillCatalogue())
    assert list(catalogue.skills) == ["good"]
    [told] = [problem for problem in catalogue.problems if "in all" in problem]
    assert "skills take more than 64 MiB in all; 7 files are left out, from large63.md on" in told


def test_h1b_a_merge_bomb_is_refused_unmerged() -> None:
    with pytest.raises(SkillError, match="anchors and aliases"):
        read_front_matter(f"---\nname: x\n{MERGES}\n---\n")
    assert parse("<<: {a: b}\nc: d") == {"<<": {"a": "b"}, "c": "d"}


@given(st.text(st.sampled_from("ab:-[]{}!&*<>|?%@#'\"\\ \n\t0123456789é\x85"), max_size=200))
def test_h1b_whatever_is_written_the_result_is_text_and_no_larger(text: str) -> None:
    refusal, value = "", None
    try:
        value = parse(text)
    except ValueError as error:
        refusal = str(error)
    assert "\n" not in refusal
    assert _size(value) <= len(text)


def _size(value: Any, depth: int = 0) -> int:
    """How many characters there are; everything is text, in lists and mappings."""
    assert depth <= MAX_DEPTH
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return sum(_size(k, depth + 1) + _size(v, depth + 1) for k, v in pairs)
    if isinstance(value, list):
        return sum(_size(each, depth + 1) for each in cast("list[Any]", value))
    assert value is None or isinstance(value, str)
    return len(value or "")


@pytest.mark.parametrize(
    "title", [" \t" * 400_000, "#" * 800_000, " #" * 400_000, "# \t" * 200_000]
)
def test_h1_a_long_heading_is_read_in_one_go(title: str) -> None:
    """A pattern took cubic time, and held every other thread meanwhile."""
    [passage] = split(f"# x{title}y\n\ntext")
    assert passage.text == "text"


@given(st.text(st.sampled_from("# \ta\\"), max_size=12))
def test_h1_headings_are_what_they_were(line: str) -> None:
    """An ATX heading, as the pattern had it that was slow."""
    import re  # noqa: PLC0415 - the oracle

    known = re.fullmatch(r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*", line)
    found = split(f"{line}\n\ntext")
    expected = " ".join(known[2].split()) if known else ""
    assert found[0].heading == expected
    assert (found[0].text == "text") == (known is not None or not line.strip())


@pytest.mark.parametrize("path", [".env", "keys/.ssh/id", ".git/config", "node_modules/a.md"])
def test_l10_what_the_walk_leaves_out_is_not_read(now: Running, folder: Path, path: str) -> None:
    file = folder / "good" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("KEY=1", "utf-8")
    with pytest.raises(SkillError, match=r"is hidden or a tool's own"):
        now.portal.call(now.app.skills().read, "good", path)


def test_l10_a_hard_link_is_neither_listed_nor_read(now: Running, folder: Path) -> None:
    secret = folder.parent.parent / "secret"
    secret.write_text("KEY=1", "utf-8")
    os.link(secret, folder / "good" / "linked.txt")
    os.link(secret, folder / "alone.md")
    until(lambda: len(now.app.skills().report().problems) == 2, "both are problems")
    for name, problem in zip(
        ["alone.md", "linked.txt"], now.app.skills().report().problems, strict=True
    ):
        assert f"{name}' has another name elsewhere (a hard link); it is not read" in problem
    assert names(now) == ["good", "toolscript"]
    with pytest.raises(SkillError, match="hard link"):
        now.portal.call(now.app.skills().read, "good", "linked.txt")
    assert [found.path for found in ConfinedReader(folder).walk().files] == ["good/SKILL.md"]


NASTY = "evil\n\x1b[31m\u202egnp.exe\u2066.md"


def test_l11_a_skill_called_after_its_file_has_a_name_that_can_be_shown(
    cli: Cli, tmp_path: Path
) -> None:
    """Over HTTP, and by that name it is found and read."""
    del tmp_path
    cli.configure()
    folder = cli.home / ".claude" / "skills"
    put(folder, "good", GOOD)
    (folder / NASTY).write_text("Cut the hedge in June.", "utf-8")
    url = cli.start_gateway()
    until(lambda: fetch(url, "/skills")[1]["ready"], "they are indexed")
    listed = fetch(url, "/skills")[1]["skills"]
    assert [each["name"] for each in listed] == ["evil [31mgnp.exe.md", "good", "toolscript"]
    _, found = fetch(url, "/skills/search", {"q": "cut the hedge"})
    _, page = fetch(url, "/skills/read", {"name": "evil [31mgnp.exe.md"})
    assert page["text"] == "Cut the hedge in June."
    for answer in (listed, found, page):
        assert all(mark not in str(answer) for mark in ("\\n\\x1b", "\x1b", "\u202e", "\u2066"))


def test_l11_names_and_reasons_are_text_in_a_markdown_table() -> None:
    shown = table_cell(
        "x__<img src=x onerror=alert(1)>[a](http://e.example)|`b`&lt;\nwww.e.example"
    )
    assert shown == (
        r"x__\<img src=x onerror=alert(1)\>\[a\](http\://e.example)\|\`b\`\&lt; www\.e.example"
    )
