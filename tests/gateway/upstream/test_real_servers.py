"""Third-party MCP servers from the registries, all at once, and what people ask for."""

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT, Cli, Running, processes, running, stop_all, write_config

pytestmark = pytest.mark.servers
NAMES = [
    "calculator",
    "duckduckgo",
    "everything",
    "excel",
    "fetch",
    "filesystem",
    "git",
    "memory",
    "shell",
    "sqlite",
    "time",
]
BUNDLED = {"TOOLSCRIPT_SEARCH_MODEL": "bundled", "TOOLSCRIPT_CONNECT_TIMEOUT": "120"}


@pytest.fixture(scope="module")
def servers(
    real_servers: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    """The servers with a workspace of their own: what they might change is a copy."""
    directory = tmp_path_factory.mktemp("real")
    [root] = {
        Path(word).parent
        for entry in real_servers.values()
        for word in entry["args"]
        if word.endswith("/workspace")
    }
    for name in ("workspace", "data"):
        shutil.copytree(root / name, directory / name)
    text = json.dumps(real_servers)
    for name in ("workspace", "data"):
        text = text.replace(str(root / name), str(directory / name))
    return directory, json.loads(text)


@pytest.fixture(scope="module")
def now(servers: tuple[Path, dict[str, Any]]) -> Generator[Running]:
    """An application with all of them, its model the bundled one."""
    directory, entries = servers
    with running(write_config(directory / "servers.json", entries), BUNDLED) as now:
        for name in entries:
            now.wait_for(name, "ready", 120)
        now.settle()
        yield now
    assert not processes(str(directory))


@pytest.mark.requirement("upstream:transports")
def test_all_are_ready(now: Running) -> None:
    """upstream:transports: eleven servers by as many authors, in Python and JavaScript."""
    statuses = now.statuses()
    assert sorted(statuses) == NAMES
    assert {status.state for status in statuses.values()} == {"ready"}
    assert all(status.tools and not status.rejected for status in statuses.values())


@pytest.mark.requirement("search:rank", "search:typo", "search:exact", "search:intent")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("commit my changes to git", ("git__git_commit",)),
        ("read_fil", ("filesystem__read_file",)),
        ("raed_file", ("filesystem__read_file",)),
        ("what is the current time in Tokyo", ("time__get_current_time",)),
        ("read_text_file", ("filesystem__read_text_file",)),
        ("git__git_diff", ("git__git_diff",)),
        ("git:git_diff", ("git__git_diff",)),
        ("git diff", ("git__git_diff",)),
    ],
)
def test_telling_queries(now: Running, query: str, expected: tuple[str, ...]) -> None:
    found = now.finds(query)
    assert found
    assert found[0].startswith(expected)


@pytest.mark.requirement("search:none")
def test_gibberish(now: Running) -> None:
    assert now.finds("zxqv blorp") == []


def test_a10_the_pages_count_the_tools_of_the_demo(now: Running) -> None:
    """The demo starts these servers, and prints how many tools they have."""
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    assert f"{len(NAMES)} servers of the demo, {len(now.tool_ids())} tools" in page


@pytest.mark.requirement("search:exact")
def test_every_tool_is_found_by_its_id(now: Running) -> None:
    """search:exact: at rank 1, with confidence 1."""
    for name in now.tool_ids():
        [first, *_] = now.search(name).hits
        assert (first.document.id, first.score) == (name, 1.0)


@pytest.mark.requirement("cli:search")
def test_on_the_command_line(servers: tuple[Path, dict[str, Any]], now: Running) -> None:
    """cli:search: the snapshot that the application left is all that a search needs."""
    directory, _ = servers
    cli = Cli(directory / "home")
    cli.home.mkdir()
    where = ["--config", str(directory / "servers.json"), "--data-dir", str(directory / "data")]
    answer = cli.json("search", "commit my changes to git", *where)
    assert answer["results"][0]["serverName"] in {"git", "shell"}
    assert [hit["toolId"] for hit in answer["results"]] == now.finds("commit my changes to git")


@pytest.mark.requirement("upstream:isolation", "cli:others")
def test_one_gateway_with_all(servers: tuple[Path, dict[str, Any]], cli: Cli) -> None:
    """cli:others, upstream:isolation: started and stopped, and none of them is left."""
    directory, entries = servers
    copy = cli.home / "real"
    shutil.copytree(directory, copy, ignore=shutil.ignore_patterns("home"))
    text = json.dumps({"mcpServers": entries}).replace(str(directory), str(copy))
    (cli.home / ".toolscript.json").write_text(text, "utf-8")
    cli.env = {"TOOLSCRIPT_CONNECT_TIMEOUT": "120"}
    cli.start_gateway()
    try:
        listed = cli.json("list-servers")["servers"]
        assert {s["name"]: s["error"] or s["state"] for s in listed} == dict.fromkeys(
            NAMES, "ready"
        )
        done = cli("gateway", "stop")
        assert done.stdout == "stopped\n"
        assert not processes(str(copy))
    finally:
        stop_all(cli.record()["pid"] for _ in cli.records)


@pytest.mark.requirement("upstream:transports")
def test_the_installed_data_is_left_alone(
    real_servers: dict[str, Any], servers: tuple[Path, dict[str, Any]], now: Running
) -> None:
    """upstream:transports: the servers work on the copy."""
    directory, entries = servers
    assert str(directory / "data" / "shop.db") in entries["sqlite"]["args"]
    assert entries["sqlite"]["command"] == real_servers["sqlite"]["command"]
    with contextlib.closing(sqlite3.connect(directory / "data" / "shop.db")) as shop:
        assert shop.execute("SELECT count(*) FROM orders").fetchone() == (3,)
