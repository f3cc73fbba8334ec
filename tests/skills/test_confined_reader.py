"""Nothing outside the root is read, whatever is there and whoever changes it meanwhile."""

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscript.errors import SkillError
from toolscript.skills.confined_reader import MAX_DEPTH, MAX_FILE_BYTES, QUIET_S, ConfinedReader

ELSEWHERE = "of somebody else"
NOBODY = 65534


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a file in a folder; a secret beside the root."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "notes.md").write_text(ELSEWHERE, "utf-8")
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    (root / "folder" / "notes.md").write_text("inside", "utf-8")
    return root


def refusal(root: Path, path: str) -> str:
    with pytest.raises(SkillError) as caught:
        ConfinedReader(root).read(path)
    return str(caught.value)


@pytest.mark.parametrize("path", ["folder/notes.md", "./folder//notes.md", "folder/./notes.md"])
def test_a_file_is_read(root: Path, path: str) -> None:
    assert ConfinedReader(root).read(path).text == "inside"


def test_line_ends_and_a_byte_order_mark_are_made_plain(root: Path) -> None:
    (root / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree\n")
    assert ConfinedReader(root).read("a.txt").text == "one\ntwo\nthree\n"


@pytest.mark.requirement("skills:update")
@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/etc/passwd", "is absolute"),
        ("../outside/notes.md", "contains '..'"),
        ("folder/../../outside/notes.md", "contains '..'"),
        ("folder/..", "contains '..'"),
        ("a\0b", "contains a NUL character"),
        ("", "the path is empty"),
        ("  ", "the path is empty"),
        (".", "is the sandbox itself"),
        ("folder", "is a folder; expected a text file"),
        ("none.md", "'none.md' does not exist"),
        ("folder/notes.md/x", "lies behind something that is no folder"),
        ("x" * 300, "is longer than a name of a file can be"),
        ("\ud800", "is no name that a file can have"),
    ],
)
def test_a_path_that_leads_elsewhere_or_nowhere(root: Path, path: str, told: str) -> None:
    """skills:update: refused in one line, which shows the path harmlessly."""
    said = refusal(root, path)
    assert told in said
    assert said.isprintable()


@pytest.mark.requirement("skills:update")
@pytest.mark.parametrize("link", ["folder/link.md", "link"], ids=["a file", "a folder on the way"])
@pytest.mark.parametrize("inside", ["inside", "outside"])
def test_links_are_not_followed(root: Path, link: str, inside: str) -> None:
    """skills:update: not even those that stay inside."""
    target = root.parent / "outside"
    if link.endswith(".md"):
        (root / link).symlink_to("notes.md" if inside == "inside" else target / "notes.md")
        assert "symbolic link" in refusal(root, link)
    else:
        (root / link).symlink_to("folder" if inside == "inside" else target)
        assert "symbolic link" in refusal(root, f"{link}/notes.md")


def test_the_root_itself_may_be_a_link(root: Path) -> None:
    (root.parent / "alias").symlink_to(root)
    assert ConfinedReader(root.parent / "alias").read("folder/notes.md").text == "inside"


@pytest.mark.requirement("skills:update")
def test_what_is_no_regular_file_is_refused_at_once(root: Path) -> None:
    """skills:update: a FIFO would keep its reader waiting for ever."""
    os.mkfifo(root / "pipe.md")
    assert "is a FIFO; expected a text file" in refusal(root, "pipe.md")
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(root)  # the path of a socket may not be long
        try:
            listening.bind("socket.md")
        finally:
            os.chdir(here)
        assert "is no regular file" in refusal(root, "socket.md")


@pytest.mark.requirement("skills:update")
def test_a_device_is_refused(root: Path) -> None:
    assert "is a device; expected a text file" in refusal(Path("/dev"), "zero")


@pytest.mark.requirement("skills:update")
def test_a_large_file_is_refused_unread(root: Path) -> None:
    """skills:update: a gigabyte, of which nothing is read."""
    with (root / "large.md").open("wb") as file:
        file.truncate(1024**3)
    said = refusal(root, "large.md")
    assert f"has {1024**3} bytes; at most {MAX_FILE_BYTES} are read" in said
    (root / "most.md").write_bytes(b"x" * MAX_FILE_BYTES)
    assert len(ConfinedReader(root).read("most.md").text) == MAX_FILE_BYTES


@pytest.mark.requirement("skills:update")
@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"\x7fELF\0\0", "is binary (it has a NUL byte)"),
        ("käse".encode("latin-1"), "is no UTF-8: byte 0xe4 at 1"),
        (b"cut short \xe2\x82", "is no UTF-8"),
        ("UTF-16".encode("utf-16"), "is binary"),
    ],
)
def test_what_is_no_text(root: Path, data: bytes, told: str) -> None:
    (root / "a.md").write_bytes(data)
    assert told in refusal(root, "a.md")


@pytest.mark.requirement("skills:update")
def test_what_may_not_be_read(root: Path) -> None:
    """skills:update: by somebody who is not the superuser, for whom nothing is closed."""
    (root / "closed.md").write_text("x", "utf-8")
    (root / "closed.md").chmod(0)
    user = os.geteuid()
    os.seteuid(user or NOBODY)
    try:
        assert "may not be read; change its permissions" in refusal(root, "closed.md")
    finally:
        os.seteuid(user)


def test_a_root_that_is_not_there(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "none", "a.md")
    with pytest.raises(SkillError, match="does not exist"):
        ConfinedReader(tmp_path / "none").walk()


@given(path=st.text())
def test_any_text_at_all_is_read_or_refused(path: str) -> None:
    """skills:update: with one kind of error, and nothing but what lies below is opened."""
    try:
        text = ConfinedReader(Path(__file__).parent / "library").read(path).text
    except SkillError as error:
        text = f"PROCEDURE {error}"
    assert "PROCEDURE" in text


# Races


@contextmanager
def meanwhile(work: Callable[[], None]) -> Generator[None]:
    """Do something again and again in a thread for as long as the block lasts."""
    ended = threading.Event()

    def again() -> None:
        while not ended.is_set():
            work()

    thread = threading.Thread(target=again)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def outcomes(read: Callable[[], str], enough: Callable[[dict[str, int]], bool]) -> dict[str, int]:
    """How often what was read, or refused, until that is enough."""
    counts: dict[str, int] = {}
    end = time.monotonic() + 60
    while not enough(counts) and time.monotonic() < end:
        try:
            said = read()
        except SkillError as error:
            said = "refused: link" if "symbolic link" in str(error) else "refused"
        counts[said] = counts.get(said, 0) + 1
    return counts


@pytest.mark.requirement("skills:update")
@pytest.mark.parametrize("path", ["swapped/notes.md", "folder/swapped.md"])
def test_a_link_that_is_put_there_meanwhile_is_never_followed(root: Path, path: str) -> None:
    """skills:update: a folder on the way, or the file, is exchanged for a link again and again."""
    name = root / (path.partition("/")[0] if path.startswith("swapped") else path)
    real, link = root / "real", root / "link"
    if path.startswith("swapped"):
        real.mkdir()
        (real / "notes.md").write_text("inside", "utf-8")
        link.symlink_to(root.parent / "outside")
    else:
        real.write_text("inside", "utf-8")
        link.symlink_to(root.parent / "outside" / "notes.md")

    def swap() -> None:
        for _ in range(1000):
            for source in (real, link):
                source.rename(name)
                name.rename(source)
        real.rename(name)
        time.sleep(3 * QUIET_S)  # what is exchanged all the time counts as being written
        name.rename(real)

    reader = ConfinedReader(root)
    with meanwhile(swap):
        counts = outcomes(
            lambda: reader.read(path).text,
            lambda seen: seen.get("refused: link", 0) >= 300 and seen.get("inside", 0) >= 3,
        )
    assert ELSEWHERE not in counts
    assert counts.get("refused: link", 0) >= 300, f"the race was not run: {counts}"


@pytest.mark.requirement("skills:folders")
def test_a_walk_meets_no_link_that_is_put_there_meanwhile(root: Path) -> None:
    """skills:folders: there is time between listing a folder's name and opening it."""
    (root.parent / "outside" / "other.md").write_text(ELSEWHERE, "utf-8")
    for number in range(20):
        (root / f"empty{number}").mkdir()
    real, link, name = root / "folder", root / "link", root / "name"
    link.symlink_to(root.parent / "outside")

    def swap() -> None:
        for source in (real, link):
            source.rename(name)
            name.rename(source)

    found: set[str] = set()
    linked = 0
    with meanwhile(swap):
        for _ in range(1_500):
            walk = ConfinedReader(root).walk()
            found |= {Path(each.path).name for each in walk.files}
            linked += any("name" in problem for problem in walk.problems)
    assert found == {"notes.md"}
    assert linked, "the link was never there when it was looked at"


@pytest.mark.requirement("skills:update")
def test_a_file_that_changes_while_it_is_read_is_read_whole_or_refused(root: Path) -> None:
    """skills:update: never half of one state and half of another."""
    path, size = root / "changing.md", 400_000
    path.write_bytes(b"a" * size)
    letters = iter("ab" * 10_000_000)

    def change() -> None:
        with path.open("r+b") as file:
            file.write(next(letters).encode() * size)

    reader = ConfinedReader(root)
    with meanwhile(change):
        counts = outcomes(
            lambda: "".join(set(reader.read("changing.md").text)), lambda seen: "refused" in seen
        )
    assert counts.keys() <= {"a", "b", "refused"}
    assert "refused" in counts
    assert len(set(reader.read("changing.md").text)) == 1, "once it is left alone"


@pytest.mark.requirement("skills:update")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can tell")
def test_a_file_that_somebody_has_open_to_write_is_refused(root: Path) -> None:
    """skills:update: a writer that is interrupted midway, for however long."""
    path = root / "folder" / "notes.md"
    with path.open("r+b") as file:
        file.write(b"out")
        file.flush()
        assert "changes while it is read" in refusal(root, "folder/notes.md")
    assert ConfinedReader(root).read("folder/notes.md").text == "outide"


@pytest.mark.parametrize(("path", "passing"), [("none.md", True), ("binary", False)])
def test_an_error_says_whether_it_may_pass(root: Path, path: str, *, passing: bool) -> None:
    """skills:folders: what the system refuses may; what is in a file stays there."""
    (root / "binary").write_bytes(b"\0")
    with pytest.raises(SkillError) as caught:
        ConfinedReader(root).read(path)
    assert caught.value.passing is passing


# Walking


def test_a_walk_finds_regular_files_in_order(root: Path) -> None:
    """skills:folders: what is hidden or a link is left out; a link is said to be one."""
    for name in (".git/config.md", "node_modules/x.md", "b.md", "a/b/c.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x", "utf-8")
    (root / "link").symlink_to(root.parent / "outside")
    os.mkfifo(root / "pipe.md")
    walk = ConfinedReader(root).walk()
    assert [found.path for found in walk.files] == ["a/b/c.txt", "b.md", "folder/notes.md"]
    assert walk.problems == ["'link' is a symbolic link; it is not followed"]


def test_a_walk_says_what_it_cannot_look_into(root: Path) -> None:
    deep = root.joinpath(*(str(level) for level in range(MAX_DEPTH + 1)))
    deep.mkdir(parents=True)
    (deep / "a.md").write_text("x", "utf-8")
    (root / os.fsdecode(b"caf\xe9.md")).write_text("x", "utf-8")
    walk = ConfinedReader(root).walk()
    assert [found.path for found in walk.files] == ["folder/notes.md"]
    assert any("nested too deeply" in problem for problem in walk.problems)
    assert any("a name that is no UTF-8" in problem for problem in walk.problems)


def test_a_walk_has_an_end(root: Path) -> None:
    for number in range(30):
        (root / f"{number}.md").write_text("x", "utf-8")
    walk = ConfinedReader(root, 10).walk()
    assert len(walk.files) <= 10
    assert walk.problems == ["there are more than 10 files; the rest is left out"]
