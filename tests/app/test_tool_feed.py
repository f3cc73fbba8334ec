"""A gateway's catalogues as documents."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support import unused_pins
from toolscript.app.tool_feed import ToolFeed
from toolscript.config.servers import Config
from toolscript.gateway.base import Connect
from toolscript.gateway.catalogue import Catalogue, ServerEntry
from toolscript.gateway.gateway import Gateway
from toolscript.gateway.snapshot import SnapshotStore
from toolscript.types import Document, ServerSpec, ToolSpec


def no_connection() -> Connect:
    raise AssertionError("nothing is to be connected to")


def entry(server: str, *tools: str) -> ServerEntry:
    listed = tuple(
        ToolSpec(server=server, name=name, description=f"A tool of {server}.") for name in tools
    )
    return ServerEntry(name=server, digest="d", state="ready", tools=listed)


@pytest.mark.requirement("catalogue:progressive")
def test_only_servers_that_changed_are_read_again(tmp_path: Path) -> None:
    config = Config((tmp_path / "config.json",), ())
    gateway = Gateway(config, Catalogue({}), no_connection, unused_pins())
    feed = ToolFeed(gateway, SnapshotStore(tmp_path, config.key))
    # The second server's ids stand among those of the first.
    before = Catalogue.of([entry("a", "list_a", "_z", "z"), entry("a_", "list_a_")])
    first = feed.documents(before)
    assert first == [Document.of(tool) for tool in before.tools.values()]

    changed = replace(before.servers["a_"], tools=entry("a_", "list_a_", "new").tools)
    second = feed.documents(before.replacing(changed))
    assert [each.id for each in second] == ["a___list_a_", "a___new", "a___z", "a__list_a", "a__z"]
    assert [each for each in second if any(each is old for old in first)] == [
        each for each in second if each.server == "a"
    ]
    assert [
        each.id
        for each in feed.documents(before.keeping({"a_": ServerSpec(name="a_", transport="stdio")}))
    ] == ["a___list_a_"]
