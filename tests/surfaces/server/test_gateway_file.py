import json
import os
import stat
from pathlib import Path

import pytest

from toolscript.errors import GatewayRunningError
from toolscript.surfaces.server.gateway_file import GatewayFile, GatewayRecord


def record(**changes: object) -> GatewayRecord:
    given = {"url": "http://127.0.0.1:7337", "pid": os.getpid(), "version": "1", "model": "m"}
    return GatewayRecord(**{**given, **changes})  # pyright: ignore[reportArgumentType] - any field


@pytest.fixture
def file(tmp_path: Path) -> GatewayFile:
    return GatewayFile(tmp_path / "data", "0123456789abcdef")


def test_what_is_noted_is_read_again_by_its_owner_only(file: GatewayFile) -> None:
    assert file.read() is None
    file.write(record())
    assert file.read() == record()
    assert file.path.name == "gateway-0123456789abcdef.json"
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


def test_a_truncated_note_is_none_at_every_length(file: GatewayFile) -> None:
    file.write(record())
    whole = file.path.read_bytes()
    for length in range(len(whole)):
        file.path.write_bytes(whole[:length])
        assert file.read() is None, length


@pytest.mark.parametrize(
    "content", [b"[]", b"7", b"null", b"{}", b'{"url": "x"}', b'{"stamps": [[1]]}', b"\xff"]
)
def test_a_note_of_another_shape_is_none(file: GatewayFile, content: bytes) -> None:
    file.path.parent.mkdir(parents=True)
    file.path.write_bytes(content)
    assert file.read() is None


def test_the_note_of_another_version_is_read(file: GatewayFile) -> None:
    """A newer one has further fields, an older one lacks those with a default."""
    file.write(record())
    given = json.loads(file.path.read_bytes())
    file.path.write_text(json.dumps({**given, "mode": "new"}), "utf-8")
    assert file.read() == record()
    del given["key"]
    file.path.write_text(json.dumps(given), "utf-8")
    assert file.read() == record(key="")


def test_only_the_process_that_left_a_note_takes_it_away(file: GatewayFile) -> None:
    file.write(record(pid=1))
    file.remove()
    assert file.read() == record(pid=1)
    file.remove(pid=1)
    assert file.read() is None
    file.remove(pid=1)


def test_one_at_a_time_is_the_gateway_of_a_configuration(file: GatewayFile) -> None:
    assert not file.is_locked()
    same = GatewayFile(file.path.parent.parent, "0123456789abcdef")
    other = GatewayFile(file.path.parent.parent, "fedcba9876543210")
    with file.lock():
        assert same.is_locked()
        assert not other.is_locked()
        with pytest.raises(GatewayRunningError, match="running or starting already"), same.lock():
            pass
    assert not same.is_locked()
    with same.lock():
        assert file.is_locked()


def test_whoever_becomes_the_gateway_takes_a_stale_note_away(file: GatewayFile) -> None:
    file.write(record(pid=1))
    with file.lock():
        assert file.read() is None
