"""The MCP surface, used by the clients of others: each in a process and environment of its own."""

import json
import os
import re
import shlex
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.clients.driver import EVERY, HEARING, INSPECTOR, LISTENING, Client, Listening
from tests.docs.pages import ROOT, fences
from tests.support import Cli, Scripted, tool, until

pytestmark = pytest.mark.servers
SOON_S = 10.0
"""Within this the clients have heard of a change."""
CALLS = {"read_tool", "call_tool", "call_destructive_tool"}
SEARCH = {"search_tools", "describe_tools", *CALLS, "read_result"}


@dataclass(frozen=True)
class Gateway:
    """A gateway over real servers, and one whose tools a file says."""

    cli: Cli
    url: str
    servers: dict[str, Any]
    tools: Path
    notes: Path

    def add(self, name: str) -> None:
        """Another tool of the server that changes."""
        now = [*json.loads(self.tools.read_text("utf-8")), tool(name)]
        self.tools.write_text(json.dumps(now), "utf-8")

    @contextmanager
    def joined_by(self, **servers: Any) -> Generator[None]:
        """An edit of the configuration, and its taking back."""
        self.cli.configure(**self.servers, **servers)
        yield
        self.cli.configure(**self.servers)


@pytest.fixture(scope="module")
def gateway(
    real_servers: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Generator[Gateway]:
    if not INSPECTOR.is_file():
        pytest.fail(f"{INSPECTOR} does not exist; run: bash scripts/test", pytrace=False)
    home = tmp_path_factory.mktemp("clients")
    notes, tools = home / "notes", home / "tools.json"
    notes.mkdir()
    (notes / "plumber.txt").write_text("Ring the plumber on Tuesday.", "utf-8")
    tools.write_text("[]", "utf-8")
    files = real_servers["filesystem"]
    servers = {
        "filesystem": {**files, "args": [*files["args"][:-1], str(notes)]},
        "everything": real_servers["everything"],
        "time": real_servers["time"],
        "changing": Scripted(home)(tools_file=str(tools)),
    }
    cli = Cli(home)
    cli.configure(**servers)
    with cli:
        yield Gateway(cli, cli.start_gateway(), servers, tools, notes)


def said(result: dict[str, Any]) -> Any:
    """What a result says in JSON; in its structure, too, where that comes from a server."""
    assert not result.get("isError"), result
    told = json.loads(text(result))
    assert told == result.get("structuredContent", told)
    return told


def text(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


def found(client: Client, query: str) -> list[str]:
    return [
        each["id"] for each in said(client.call("search_tools", query=query, detail=True))["tools"]
    ]


@pytest.mark.requirement("mcp:search_tools")
@pytest.mark.parametrize("name", EVERY)
def test_it_searches_describes_and_calls(name: str, gateway: Gateway) -> None:
    with EVERY[name]({"url": f"{gateway.url}/mcp"}, gateway.cli.environment()) as client:
        assert set(client.tools()) == SEARCH
        reads = "filesystem:read_text_file"
        assert reads in found(client, "read the text of a file")
        [described] = said(client.call("describe_tools", tools=[reads]))["tools"]
        assert described["inputSchema"]["required"] == ["path"]
        given = {"path": str(gateway.notes / "plumber.txt")}
        result = client.call("read_tool", tool=reads, arguments=given)
        assert text(result) == "Ring the plumber on Tuesday."
        mistake = client.call("read_tool", tool=reads, arguments={})
        assert mistake["isError"]
        assert "path is missing" in text(mistake)


@pytest.mark.requirement("mcp:transports")
@pytest.mark.parametrize("name", EVERY)
def test_it_calls_every_tool_by_its_name(name: str, gateway: Gateway) -> None:
    """mcp:transports: a plain proxy; results that a client checks, and images."""
    with EVERY[name]({"url": f"{gateway.url}/mcp/all"}, gateway.cli.environment()) as client:
        listed = client.tools()
        assert {"time__get_current_time", "filesystem__read_text_file"} < set(listed)
        assert not (SEARCH - {"read_result"}) & set(listed)
        now = client.call("time__get_current_time", timezone="UTC")
        assert json.loads(text(now))["timezone"] == "UTC"
        weather = client.call("everything__get-structured-content", location="Chicago")
        assert "temperature" in said(weather)
        image = client.call("everything__get-tiny-image")["content"][1]
        assert (image["type"], image["mimeType"]) == ("image", "image/png")


@pytest.mark.requirement("upstream:live", "mcp:transports")
@pytest.mark.parametrize("name", HEARING)
def test_it_hears_of_changes(name: str, gateway: Gateway, tmp_path: Path) -> None:
    """mcp:transports, upstream:live: what a server tells, and an edit of the configuration."""
    fresh = re.sub(r"\W+", "_", name).lower()

    def hears(client: Listening, before: int, added: str) -> None:
        until(lambda: client.heard() > before, "it is told that the list has changed", SOON_S)
        until(lambda: added in client.tools(), "the new tool is listed", SOON_S)

    where = {"url": f"{gateway.url}/mcp/all"}
    with LISTENING[name](where, gateway.cli.environment()) as client:
        client.tools()
        before = client.heard()
        gateway.add(fresh)
        hears(client, before, f"changing__{fresh}")
        told = client.heard()
        with gateway.joined_by(**{fresh: Scripted(tmp_path)(tool("added"))}):
            hears(client, told, f"{fresh}__added")
            called = client.call(f"{fresh}__added", a=1)
            assert json.loads(text(called))["arguments"] == {"a": 1}


@pytest.mark.requirement("mcp:tool_search")
@pytest.mark.parametrize("name", LISTENING)
def test_it_sees_what_two_phases_found(name: str, gateway: Gateway) -> None:
    where = {"url": f"{gateway.url}/mcp/two-phase"}
    with LISTENING[name](where, gateway.cli.environment()) as client:
        assert set(client.tools()) == {"tool_search"}
        client.call("tool_search", query="get_current_time", max_tools=1)
        until(lambda: client.heard() > 0, "it is told that the list has changed", SOON_S)
        assert set(client.tools()) == {"tool_search", "time__get_current_time"}
        now = client.call("time__get_current_time", timezone="UTC")
        assert json.loads(text(now))["timezone"] == "UTC"


@pytest.mark.requirement("mcp:transports")
@pytest.mark.parametrize("name", EVERY)
def test_it_starts_us_from_its_configuration(
    name: str, cli: Cli, real_servers: dict[str, Any]
) -> None:
    """mcp:transports: as the guide shows it, over standard input and output."""
    shown = next(
        fence.text
        for fence in fences(ROOT / "docs/guides/clients.md")
        if fence.language == "json" and '"toolscript"' in fence.text
    )
    notes = cli.home / "notes"
    notes.mkdir()
    files = real_servers["filesystem"]
    cli.configure(files={**files, "args": [*files["args"][:-1], str(notes)]})
    config = cli.home / "client.json"
    config.write_text(shown, "utf-8")
    env = cli.environment({"PATH": f"{_with_toolscript(cli.home)}:{os.environ['PATH']}"})
    where = {"config": str(config), "server": "toolscript"}
    with EVERY[name](where, env) as client:
        assert set(client.tools()) == SEARCH
        given = {"path": str(notes / "a.txt"), "content": name}
        done = client.call("call_destructive_tool", tool="files:write_file", arguments=given)
        assert not done.get("isError"), done
        assert (notes / "a.txt").read_text("utf-8") == name
        assert "files:write_file" in found(client, "write a file")


def _with_toolscript(home: Path) -> Path:
    """A folder with the program, which does not reach for the hub."""
    program = home / "bin" / "toolscript"
    program.parent.mkdir()
    real = shlex.quote(str(Path(sys.executable).with_name("toolscript")))
    program.write_text(f'#!/bin/sh\nTOOLSCRIPT_SEARCH_MODEL=bundled exec {real} "$@"\n', "utf-8")
    program.chmod(0o755)
    return program.parent


def test_the_guide_names_the_versions_that_are_tested() -> None:
    pins = ROOT / "requirements"
    packages = json.loads((pins / "clients/package.json").read_text("utf-8"))["dependencies"]
    tested = {
        "MCP inspector, `--cli`": packages["@modelcontextprotocol/inspector"],
        "TypeScript SDK 1": packages["@modelcontextprotocol/sdk"],
        "TypeScript SDK 2": packages["@modelcontextprotocol/client"],
        "Python SDK 1": _pinned(pins / "clients/python_1.txt", "mcp"),
        "Python SDK 2": _pinned(pins / "dev.txt", "mcp"),
        "FastMCP": _pinned(pins / "clients/fastmcp.txt", "fastmcp-slim"),
    }
    guide = (ROOT / "docs/guides/clients.md").read_text("utf-8")
    wrong = [name for name, version in tested.items() if f"| {name} | {version} |" not in guide]
    assert wrong == []


def _pinned(file: Path, package: str) -> str:
    [version] = re.findall(rf"^{package}==(\S+)", file.read_text("utf-8"), re.MULTILINE)
    return version
