"""Files change together, and back, and nobody's later work is lost."""

import stat
from pathlib import Path

import pytest

from toolscript.errors import ConfigSyntaxError
from toolscript.storage.reversible_writes import FileChange, Restored, restore_all, write_all


def write(tmp_path: Path, *changes: FileChange, needed: Path | None = None) -> list[str]:
    return [reason for _, reason in write_all(tmp_path / "setup", changes, needed)]


def restore(tmp_path: Path) -> list[Restored]:
    return [*restore_all(tmp_path / "setup", refuse)]


def refuse(path: Path, before: bytes | None, after: bytes, now: bytes) -> bytes | None:
    raise ConfigSyntaxError(f"{path.name} has {(before, after, now)}")


@pytest.mark.requirement("setup:safe")
def test_a_file_that_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in "abc")
    for path in (first, second):
        path.write_bytes(b"now")
    changes = [
        FileChange(first, b"now", b"then"),
        FileChange(second, b"before", b"then"),
        FileChange(third, None, b"new"),
    ]
    assert write(tmp_path, *changes) == ["", "it has changed meanwhile; run the command again", ""]
    assert [path.read_bytes() for path in (first, second, third)] == [b"then", b"now", b"new"]
    results = {result.path: result.reason for result in restore(tmp_path)}
    assert results == {first: "", second: "b has (b'before', b'then', b'now')", third: ""}
    assert (first.read_bytes(), second.read_bytes(), third.exists()) == (b"now", b"now", False)


@pytest.mark.requirement("setup:safe")
def test_without_the_needed_file_no_later_one_changes(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_bytes(b"other")
    second.write_bytes(b"now")
    changes = (FileChange(first, None, b"x"), FileChange(second, b"now", b"x"))
    reasons = write(tmp_path, *changes, needed=first)
    assert reasons == ["it has changed meanwhile; run the command again"]
    assert second.read_bytes() == b"now"


def test_former_bytes_are_private(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"now")
    assert write(tmp_path, FileChange(path, b"now", b"then")) == [""]
    kept = [*(tmp_path / "setup").rglob("*")]
    assert {stat.S_IMODE(each.stat().st_mode) & 0o077 for each in kept} == {0}
    assert b"now" in {each.read_bytes() for each in kept if each.is_file()}


def test_several_changes_go_back_to_the_first(tmp_path: Path) -> None:
    path = tmp_path / "a"
    assert write(tmp_path, FileChange(path, None, b"1")) == [""]
    assert write(tmp_path, FileChange(path, b"1", b"2")) == [""]
    assert [result.reason for result in restore(tmp_path)] == ["", ""]
    assert not path.exists()
    assert restore(tmp_path) == []


@pytest.mark.requirement("setup:safe")
def test_half_a_journal_is_none(tmp_path: Path) -> None:
    """A process that writes or deletes one may be killed before the end."""
    path, half = tmp_path / "a", tmp_path / "setup" / "00000000000000000001"
    half.mkdir(parents=True)
    (half / "0.before").write_bytes(b"before")
    assert write(tmp_path, FileChange(path, None, b"1")) == [""]
    assert [result.reason for result in restore(tmp_path)] == [""]
    assert [each.name for each in (tmp_path / "setup").iterdir()] == [".lock"]


@pytest.mark.requirement("setup:safe")
def test_what_files_need_goes_back_after_them(tmp_path: Path) -> None:
    own, first, second = (tmp_path / name for name in ("own", "a", "b"))
    first.write_bytes(b"1")
    written = [FileChange(own, None, b"o"), FileChange(first, b"1", b"2")]
    assert write(tmp_path, *written, needed=own) == ["", ""]
    assert write(tmp_path, FileChange(second, None, b"3"), needed=own) == [""]
    second.write_bytes(b"4")
    former = [(each.path, each.former is None) for each in restore(tmp_path) if each.reason]
    assert former == [(second, True), (own, True)]
    assert (own.read_bytes(), first.read_bytes(), second.read_bytes()) == (b"o", b"1", b"4")
    second.unlink()
    assert [result.path for result in restore(tmp_path)] == [second, first, own]
    assert (own.exists(), first.read_bytes()) == (False, b"1")


def test_a_file_that_is_gone_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"1")
    assert write(tmp_path, FileChange(path, b"1", b"2")) == [""]
    path.unlink()
    assert [result.reason for result in restore(tmp_path)] == [""]
    assert path.read_bytes() == b"1"
