import json
import logging
import stat
from pathlib import Path

import pytest

from toolscript.gateway.catalogue import Catalogue, ServerEntry
from toolscript.gateway.snapshot import SnapshotStore
from toolscript.types import ServerSpec, ServerState, ToolSpec

TIME = ServerSpec(name="time", transport="stdio", command="uvx")
GIT = ServerSpec(name="git", transport="http", url="http://localhost/mcp")


def entry(spec: ServerSpec, state: ServerState = "ready") -> ServerEntry:
    tool = ToolSpec(
        server=spec.name,
        name="ünïcode",
        title="T",
        description="Does \u202e things\n🚀",
        input_schema={"type": "object", "properties": {"a": {"enum": [1, 2.5, None, "x"]}}},
        output_schema={"type": "object"},
        annotations={"readOnlyHint": True},
    )
    return ServerEntry(
        name=spec.name,
        digest=spec.digest,
        state=state,
        tools=(tool,),
        error="was down",
        since="2026-01-01T00:00:00+00:00",
        version="Time 1.0",
        rejected=("a: no name",),
    )


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path / "catalogue", "0123456789abcdef")


def test_the_file_is_named_by_the_configuration_and_only_the_owner_may_read_it(
    store: SnapshotStore,
) -> None:
    store.save(Catalogue.of([entry(TIME)]))
    assert store.path.name == "catalogue-0123456789abcdef.json"
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert [path.name for path in store.path.parent.iterdir()] == [store.path.name]


def test_without_a_file_nothing_is_known_and_nothing_is_made(
    store: SnapshotStore, caplog: pytest.LogCaptureFixture
) -> None:
    assert not store.load([TIME]).servers
    assert not caplog.records
    assert not store.path.parent.exists()


def test_a_file_truncated_at_any_length_is_as_if_there_were_none(
    store: SnapshotStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.save(Catalogue.of([entry(TIME), entry(GIT)]))
    whole = store.path.read_bytes()
    caplog.set_level(logging.CRITICAL)
    for length in range(len(whole)):
        store.path.write_bytes(whole[:length])
        assert not store.load([TIME, GIT]).servers, length
    store.path.write_bytes(whole)
    assert len(store.load([TIME, GIT]).servers) == 2


def test_a_damaged_byte_anywhere_never_fails(
    store: SnapshotStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.save(Catalogue.of([entry(TIME)]))
    whole = store.path.read_bytes()
    caplog.set_level(logging.CRITICAL)
    for at in range(len(whole)):
        for byte in (0x00, 0x22, 0xC3, 0xFF):
            store.path.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
            assert set(store.load([TIME]).servers) <= {"time"}


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"nonsense", b"[]", b'{"version":1}', b'{"version":1,"servers":[1]}'),
        *(b"[" * 100_000, b'{"version":1,"servers":[{"name":"\xff"}]}'),
    ],
    ids=range(7),
)
def test_a_file_of_another_shape_is_a_warning_and_replaced(
    store: SnapshotStore, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store.path.parent.mkdir(parents=True)
    store.path.write_bytes(content)
    assert not store.load([TIME]).servers
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(store.path) in caplog.text
    store.save(Catalogue.of([entry(TIME)]))
    assert store.load([TIME]).servers


def test_a_file_of_another_version_is_not_read(store: SnapshotStore) -> None:
    store.save(Catalogue.of([entry(TIME)]))
    document = json.loads(store.path.read_bytes())
    document["version"] += 1
    store.path.write_text(json.dumps(document))
    assert not store.load([TIME]).servers


def test_where_it_cannot_be_written_that_is_logged_and_nothing_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = SnapshotStore(tmp_path / "file" / "catalogue", "k")
    store.save(Catalogue.of([entry(TIME)]))
    assert "cannot be written" in caplog.text
    assert not store.load([TIME]).servers
