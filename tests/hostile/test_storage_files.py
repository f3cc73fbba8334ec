"""The data directory: what is left in it, what cannot be kept in it, and whose it is."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from toolscript.files import write_atomically
from toolscript.kept import Kept

# L7: temporary files


def test_l7_temporary_files_of_killed_writers_are_deleted_when_they_are_old(
    tmp_path: Path,
) -> None:
    path = tmp_path / "tokens-key.json"
    old = [".tokens-key.json.abcd_123", ".another.json.zzzzzzzz", ".graph.sqlite.abcdefgh-journal"]
    kept = [".tokens-key.json.young123", ".profile", ".hidden.txt", "plain.txt.abcd1234"]
    for name in old + kept:
        (tmp_path / name).write_bytes(b"")
        if name != ".tokens-key.json.young123":
            os.utime(tmp_path / name, (time.time() - 4000,) * 2)
    write_atomically(path, b"{}")
    assert {each.name for each in tmp_path.iterdir()} == {path.name, *kept}


# L8: fresh starts


def test_l8_a_file_that_is_just_being_made_is_not_damaged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two processes that start together: one makes the file, the other one reads."""
    code = (
        "import sys; from pathlib import Path; from toolscript.kept import Kept\n"
        "for line in sys.stdin:\n"
        "    kept = Kept(Path(line.strip()))\n"
        "    print(flush=True)\n"
        "    kept.keep('files', '1', ['key'], lambda _: b'value')\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe) as maker:
        assert maker.stdin is not None
        assert maker.stdout is not None
        for number in range(150):
            kept = Kept(tmp_path / str(number) / "a.sqlite")
            maker.stdin.write(f"{kept.path}\n".encode())
            maker.stdin.flush()
            maker.stdout.readline()
            assert any(kept.load("files", "1") for _ in range(100_000))
        maker.communicate()
    assert not caplog.text
