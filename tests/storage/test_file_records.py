"""What `FileRecords` promises beyond the contract of all records."""

import os
import stat
import sys
from pathlib import Path

import pytest

from toolscript.storage.file_records import FileRecords


@pytest.mark.skipif(sys.platform == "win32", reason="directories cannot be synced there")
def test_names_outlive_the_machine_as_contents_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    sync = os.fsync

    def note(descriptor: int) -> None:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            synced.append(status.st_ino)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    folder, markers = tmp_path / "records", tmp_path / "markers"
    records = FileRecords(folder, marker=markers.joinpath)
    records.write("a", b"1")
    directories = [folder.stat().st_ino, markers.stat().st_ino]
    assert synced == directories
    records.write("a", b"2")
    assert synced == [*directories, directories[0]]
    records.delete("a")
    assert synced[3:] == directories[:1]
