"""What is kept of files: bit for bit or not at all, whatever happens to it."""

import logging
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import until
from toolscript.storage.blob_store import BlobStore

ROWS = {f"key {number}": bytes([number]) * 300 for number in range(40)}


@pytest.fixture
def kept(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "cache" / "a.sqlite")


def put(kept: BlobStore, rows: dict[str, bytes], made_by: str = "1") -> bool:
    return kept.sync("files", made_by, rows.keys(), rows.__getitem__)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(rows=st.dictionaries(st.text(st.characters()), st.binary(), max_size=5))
def test_what_is_kept_is_read_bit_for_bit(kept: BlobStore, rows: dict[str, bytes]) -> None:
    """skills:folders: also names that no UTF-8 can carry."""
    assert put(kept, {})
    assert put(kept, rows)
    assert kept.load("files", "1") == rows
    assert kept.load("files", "1", rows.keys()) == rows
    assert kept.load("vectors", "1") == {}


def test_a_file_is_for_its_owner_only(kept: BlobStore) -> None:
    put(kept, ROWS)
    assert stat.S_IMODE(kept.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.path.parent.stat().st_mode) == 0o700


def test_a_change_writes_what_changed(kept: BlobStore) -> None:
    put(kept, ROWS)
    made: list[str] = []

    def value(key: str) -> bytes:
        made.append(key)
        return b"new"

    keys = [*list(ROWS)[1:], "another"]
    assert kept.sync("files", "1", keys, value)
    assert made == ["another"]
    found = kept.load("files", "1")
    assert found.keys() == set(keys)
    assert found["another"] == b"new"
    assert found["key 7"] == ROWS["key 7"]
    assert kept.load("files", "1", ["another", "nothing"])["another"] == b"new"
    assert kept.load("files", "1", ["nothing"]) == {}


def test_what_is_spared_stays(kept: BlobStore) -> None:
    put(kept, ROWS)
    assert kept.sync("files", "1", (), lambda _: b"", lambda key: key.endswith("7"))
    assert kept.load("files", "1").keys() == {"key 7", "key 17", "key 27", "key 37"}


def test_what_another_version_made_is_not_there(kept: BlobStore) -> None:
    put(kept, ROWS)
    assert kept.load("files", "2") == {}
    assert kept.writer_version("files") == "1"
    assert put(kept, {"a": b"b"}, "2")
    assert kept.load("files", "2") == {"a": b"b"}
    assert kept.load("files", "1") == {}


def test_a_file_cut_short_anywhere_yields_nothing_wrong_and_is_rebuilt(kept: BlobStore) -> None:
    put(kept, ROWS)
    whole = kept.path.read_bytes()
    for length in (*range(0, 200, 7), *range(200, len(whole), 3001), len(whole) - 1):
        kept.path.write_bytes(whole[:length])
        assert kept.load("files", "1").items() <= ROWS.items(), length
        assert put(kept, ROWS) or put(kept, ROWS), length
        assert kept.load("files", "1") == ROWS, length


def test_a_changed_byte_anywhere_never_yields_another_value(kept: BlobStore) -> None:
    put(kept, ROWS)
    whole = kept.path.read_bytes()
    for at in (*range(120), *range(120, len(whole), 211)):
        for byte in (whole[at] ^ 1, 0xFF):
            kept.path.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
            assert kept.load("files", "1").items() <= ROWS.items(), at
    kept.path.write_bytes(whole)
    assert kept.load("files", "1") == ROWS


def test_one_damaged_byte_costs_its_row(kept: BlobStore, caplog: pytest.LogCaptureFixture) -> None:
    rows = {f"key {number:03}": number.to_bytes() * 3000 for number in range(200)}
    put(kept, rows)
    data = kept.path.read_bytes()
    kept.path.write_bytes(data.replace(rows["key 107"][:100], b"x" * 100))
    left = kept.load("files", "1")
    assert left.items() <= rows.items()
    assert "key 107" not in left
    assert len(left) == 199
    assert "1 damaged rows" in caplog.text
    assert put(kept, rows)
    assert kept.load("files", "1") == rows


def test_a_file_of_something_else_is_replaced(
    kept: BlobStore, caplog: pytest.LogCaptureFixture
) -> None:
    kept.path.parent.mkdir()
    for number in range(3):
        if number == 0:
            kept.path.write_text("no database " * 100)
        elif number == 1:
            with sqlite3.connect(kept.path) as db:
                db.execute("create table writers (x)")
            db.close()
        else:
            put(kept, ROWS)
            with sqlite3.connect(kept.path) as db:
                db.execute("drop table files")
            db.close()
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert kept.load("files", "1") == {}
        assert "rebuilding" in caplog.text
        assert put(kept, ROWS)
        assert kept.load("files", "1") == ROWS
        kept.path.unlink()


def test_a_place_that_cannot_be_written_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_bytes(b"")
    kept = BlobStore(tmp_path / "file" / "a.sqlite")
    assert not put(kept, ROWS)
    assert kept.load("files", "1") == {}
    assert "cannot be written" in caplog.text


FULL = """
import resource, signal, sys
from pathlib import Path
from toolscript.storage.blob_store import BlobStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
kept = BlobStore(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))
rows = {str(number): bytes(1000) for number in range(500)}
assert not kept.sync("files", "1", rows.keys(), rows.__getitem__, lambda _: True)
"""


def test_a_full_disk_loses_nothing_that_was_there(kept: BlobStore) -> None:
    put(kept, ROWS)
    done = subprocess.run(
        [sys.executable, "-c", FULL, kept.path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "cannot be written" in done.stderr
    assert kept.load("files", "1") == ROWS


WRITER = """
import sys
from pathlib import Path
from toolscript.storage.blob_store import BlobStore
kept = BlobStore(Path(sys.argv[1]))
for turn in range(int(sys.argv[3])):
    rows = {f"{sys.argv[2]} {turn} {number}": bytes([turn % 256]) * 3000 for number in range(30)}
    assert kept.sync("files", "1", rows.keys(), rows.__getitem__)
"""


def start(kept: BlobStore, name: str, turns: int) -> "subprocess.Popen[bytes]":
    arguments = [str(kept.path), name, str(turns)]
    return subprocess.Popen([sys.executable, "-c", WRITER, *arguments])


def is_one_turn(rows: dict[str, bytes]) -> bool:
    return len(rows) == 30 and len({key.rpartition(" ")[0] for key in rows}) == 1


def test_processes_that_write_at_once_leave_what_one_of_them_wrote(kept: BlobStore) -> None:
    writers = [start(kept, name, 15) for name in "ab"]
    until(kept.path.exists, "one has begun")
    while any(writer.poll() is None for writer in writers):
        rows = kept.load("files", "1")
        assert not rows or is_one_turn(rows)
    assert [writer.wait() for writer in writers] == [0, 0]
    assert is_one_turn(kept.load("files", "1"))


def test_a_kill_at_any_moment_leaves_the_last_change_whole(kept: BlobStore) -> None:
    for number in range(8):
        writer = start(kept, str(number), 10_000)
        until(lambda n=number: any(k.startswith(f"{n} ") for k in kept.load("files", "1")), "wrote")
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        assert is_one_turn(kept.load("files", "1"))
    assert put(kept, ROWS)
    assert kept.load("files", "1") == ROWS
