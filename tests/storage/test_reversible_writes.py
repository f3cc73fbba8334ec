"""Files change together, and back, and nobody's later work is lost."""

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from toolscript.errors import DataDirectoryError
from toolscript.storage.reversible_writes import (
    HAS_CHANGED,
    FileChange,
    Restored,
    restore_all,
    write_all,
)


def write(tmp_path: Path, *changes: FileChange, needed: Path | None = None) -> list[str]:
    return [reason for _, reason in write_all(tmp_path / "setup.json", changes, needed)]


def restore(tmp_path: Path) -> list[Restored]:
    return [*restore_all(tmp_path / "setup.json")]


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
    assert [(each.path, each.reason) for each in restore(tmp_path)] == [(third, ""), (first, "")]
    assert (first.read_bytes(), second.read_bytes(), third.exists()) == (b"now", b"now", False)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "setup.lock"}


@pytest.mark.requirement("setup:safe")
def test_without_the_needed_file_no_later_one_changes(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_bytes(b"other")
    second.write_bytes(b"now")
    changes = (FileChange(first, None, b"x"), FileChange(second, b"now", b"x"))
    reasons = write(tmp_path, *changes, needed=first)
    assert reasons == ["it has changed meanwhile; run the command again"]
    assert second.read_bytes() == b"now"


def test_former_bytes_are_private_and_replace_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"now")
    (tmp_path / "a.bak").write_bytes(b"now")
    (tmp_path / "a.bak").chmod(0o644)  # the user's
    assert write(tmp_path, FileChange(path, b"now", b"then")) == [""]
    backup = tmp_path / "a.bak2"
    assert (backup.read_bytes(), stat.S_IMODE(backup.stat().st_mode)) == (b"now", 0o600)
    assert [result.backup for result in restore(tmp_path)] == [backup]
    assert ((tmp_path / "a.bak").exists(), backup.exists()) == (True, False)


def test_several_changes_go_back_to_the_first(tmp_path: Path) -> None:
    path = tmp_path / "a"
    assert write(tmp_path, FileChange(path, None, b"1")) == [""]
    assert write(tmp_path, FileChange(path, b"1", b"2")) == [""]
    assert [result.reason for result in restore(tmp_path)] == [""]
    assert not path.exists()
    assert restore(tmp_path) == []


@pytest.mark.requirement("setup:safe")
def test_a_killed_write_is_taken_up_again(tmp_path: Path) -> None:
    """A process may be killed between the record and the file."""
    path = tmp_path / "a"
    path.write_bytes(b"1")
    change = FileChange(path, b"1", b"2")
    assert write(tmp_path, change) == [""]
    path.write_bytes(b"1")
    assert write(tmp_path, FileChange(path, b"1", b"3")) == [""]
    assert [result.reason for result in restore(tmp_path)] == [""]
    assert path.read_bytes() == b"1"
    assert {each.name for each in tmp_path.iterdir()} == {"a", "setup.lock"}


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def unwrap(data: bytes) -> bytes:
    return json.dumps(json.loads(data)["rows"]).encode()


def add_numbers(data: bytes) -> bytes:
    return data.replace(b'"rows": [', b'"rows": [1, 2, ')


def make_object(data: bytes) -> bytes:
    return json.dumps({**json.loads(data), "rows": {"a": 1}}).encode()


def nest(data: bytes) -> bytes:
    return b"[" * 100_000 + data


def flip(data: bytes) -> bytes:
    return data.replace(b'"path": "/', b'"path": "0')


def put_outside(data: bytes) -> bytes:
    return data.replace(b"/a.bak", b"/b.bak").replace(b'/a"', b'/b"')


@pytest.mark.requirement("setup:safe")
@pytest.mark.parametrize(
    "damage",
    [
        cut,
        flip,
        put_outside,
        unwrap,
        add_numbers,
        make_object,
        nest,
    ],
)
def test_a_damaged_record_changes_nothing(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path, other, record = tmp_path / "a", tmp_path / "b", tmp_path / "setup.json"
    path.write_bytes(b"1")
    other.write_bytes(b"2")
    assert write(tmp_path, FileChange(path, b"1", b"2")) == [""]
    record.write_bytes(damage(record.read_bytes()))
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}
    with pytest.raises(DataDirectoryError, match="is damaged, so no file is changed"):
        restore(tmp_path)
    with pytest.raises(DataDirectoryError, match="is damaged, so no file is changed"):
        write(tmp_path, FileChange(other, b"2", b"3"))
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before


@pytest.mark.requirement("setup:safe")
@pytest.mark.parametrize("damaged", [None, b"other"])
def test_a_lost_backup_is_told(tmp_path: Path, damaged: bytes | None) -> None:
    path, backup = tmp_path / "a", tmp_path / "a.bak"
    path.write_bytes(b"1")
    assert write(tmp_path, FileChange(path, b"1", b"2")) == [""]
    backup.unlink()
    if damaged:
        backup.write_bytes(damaged)
    reasons = [result.reason for result in restore(tmp_path)]
    assert reasons == [f"its former content is not in {backup} any more"]
    assert path.read_bytes() == b"2"


@pytest.mark.requirement("setup:safe")
def test_what_files_need_goes_back_after_them(tmp_path: Path) -> None:
    own, first, second = (tmp_path / name for name in ("own", "a", "b"))
    first.write_bytes(b"1")
    written = [FileChange(own, None, b"o"), FileChange(first, b"1", b"2")]
    assert write(tmp_path, *written, needed=own) == ["", ""]
    assert write(tmp_path, FileChange(second, None, b"3"), needed=own) == [""]
    second.write_bytes(b"4")
    reasons = [(each.path, each.reason) for each in restore(tmp_path) if each.reason]
    assert reasons == [(second, HAS_CHANGED), (own, "files that stay need it")]
    assert (own.read_bytes(), first.read_bytes(), second.read_bytes()) == (b"o", b"1", b"4")
    second.unlink()
    assert [result.path for result in restore(tmp_path)] == [second, own]
    assert (own.exists(), first.read_bytes()) == (False, b"1")


def test_a_file_that_is_gone_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"1")
    assert write(tmp_path, FileChange(path, b"1", b"2")) == [""]
    path.unlink()
    assert [result.reason for result in restore(tmp_path)] == [""]
    assert path.read_bytes() == b"1"
