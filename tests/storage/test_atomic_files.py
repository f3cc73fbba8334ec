import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from toolscript.storage.atomic_files import (
    expanded,
    is_dir,
    is_file,
    make_private,
    open_private,
    stamp,
    write_atomically,
)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_file_is_replaced_as_a_whole_and_only_the_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file.json"
    write_atomically(path, b"one, and longer")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert names(path.parent) == ["file.json"]


def test_what_cannot_be_replaced_stays_and_no_temporary_file_is_left(tmp_path: Path) -> None:
    path = tmp_path / "directory"
    path.mkdir()
    (path / "kept").write_bytes(b"kept")
    with pytest.raises(OSError, match="directory"):
        write_atomically(path, b"data")
    assert names(tmp_path) == ["directory"]
    assert names(path) == ["kept"]


@pytest.mark.requirement("cache:safe")
def test_a12_a_reader_of_the_old_file_reads_it_to_its_end(tmp_path: Path) -> None:
    """cache:safe: the name is put on another file; the one that is being read is not written to."""
    path = tmp_path / "file.json"
    write_atomically(path, b"old")
    with path.open("rb") as reading:
        write_atomically(path, b"new and longer")
        assert reading.read() == b"old"
    assert path.read_bytes() == b"new and longer"


FULL = """
import resource, sys
from pathlib import Path
from toolscript.storage.atomic_files import write_atomically
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    write_atomically(Path(sys.argv[1]), b"x" * 1000)
except OSError:
    print("refused")
"""


@pytest.mark.requirement("cache:safe")
def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_atomically(path, b"old")
    ran = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "refused\n"
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file.json"]


WRITE = """
import sys
from pathlib import Path
from toolscript.storage.atomic_files import write_atomically
print("ready", flush=True)
while True:
    for letter in b"ab":
        write_atomically(Path(sys.argv[1]), bytes([letter]) * 300_000)
"""


@pytest.mark.requirement("cache:safe")
def test_a_kill_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_atomically(path, b"a" * 300_000)
    for _ in range(5):
        with subprocess.Popen(
            [sys.executable, "-c", WRITE, str(path)], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout
            process.stdout.readline()
            before = path.stat().st_ino
            while path.stat().st_ino == before:
                pass
            process.send_signal(signal.SIGKILL)
        assert path.read_bytes() in {b"a" * 300_000, b"b" * 300_000}


def test_a_home_directory_is_put_in_where_there_is_one() -> None:
    assert expanded("~/x") == Path.home() / "x"
    assert expanded("~no-such-user/x") == Path("~no-such-user/x")
    assert expanded("plain/x") == Path("plain/x")


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "missing"])
def test_an_impossible_name_is_no_file_and_no_directory(tmp_path: Path, name: str) -> None:
    assert not is_file(tmp_path / name)
    assert not is_dir(tmp_path / name)
    (tmp_path / "real").write_bytes(b"")
    assert is_file(tmp_path / "real")
    assert is_dir(tmp_path)


def test_directories_are_made_for_their_owner_only_and_others_are_left_alone(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o755)
    make_private(tmp_path / "a" / "b")
    make_private(tmp_path / "a" / "b")
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (tmp_path, tmp_path / "a", tmp_path / "a/b")]
    assert modes == [0o755, 0o700, 0o700]


def test_a_private_text_file_begins_empty_takes_any_text_and_is_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "server.log"
    for text in ("first", "second \udce9"):
        with open_private(path) as file:
            file.write(text)
    assert path.read_bytes() == b"second ?"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_edited_added_and_deleted_files_have_another_stamp(tmp_path: Path) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    one.write_text("{}")
    found = [stamp([one, two])]
    two.write_text("{}")
    found.append(stamp([one, two]))
    one.write_text("{ }")
    found.append(stamp([one, two]))
    os.utime(one, ns=(1, 1))
    found.append(stamp([one, two]))
    assert len(set(found)) == 4
    (tmp_path / "x").mkdir()
    assert stamp([tmp_path / "x" / ".." / "one.json", two]) == found[-1]
    two.unlink()
    assert stamp([one, two]) == stamp([one])
