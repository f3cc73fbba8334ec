"""MCP Apps (SEP-1865) pass through: tools' pages, and the capability for those who have them."""

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client import Client
from mcp.client.extension import advertise
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from tests.support import FUZZY, HELPERS, PATIENCE_S, READ_FILE, Cli, Scripted, create_token
from tests.surfaces.mcp.test_mcp import MODES, Mode, gateway, talk

from toolscript.types import ToolSpec

APPS_ID, PAGE_TYPE = "io.modelcontextprotocol/ui", "text/html;profile=mcp-app"
SHOWS_PAGES = advertise(APPS_ID, {"mimeTypes": [PAGE_TYPE]})
OLD, NEW = (f"ui://toolscript/{each}/ui://charts/chart.html" for each in ("old", "new"))
META = {"ui": {"csp": {"connectDomains": ["https://x.y"]}}}


def entry(title: str, **more: Any) -> dict[str, Any]:
    args = [str(HELPERS / "apps.py"), title]
    return {"command": sys.executable, "args": args, "permissions": {"*": "allow"}, **more}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("apps")


@pytest.fixture(scope="module")
def url(home: Path) -> Generator[str]:
    """Two servers whose tools name the same page, one of each protocol, and one without pages."""
    old = entry("Old", protocol="legacy")
    with gateway(home, old=old, new=entry("New"), files=Scripted(home)(READ_FILE)) as address:
        yield address


def see(
    home: Path, url: str, mode: Mode, *servers: str, door: str = "/mcp/all", **more: Any
) -> dict[str, Any]:
    """What a client sees whose token is for these servers: capabilities, pages and results."""
    token = create_token(Cli(home, FUZZY), *(f"--server={each}" for each in servers))["token"]
    seen: dict[str, Any] = {}

    async def look(client: Client) -> None:
        capabilities = client.server_capabilities
        extensions = (capabilities.extensions if capabilities else None) or {}
        seen["declared"] = APPS_ID in extensions
        for tool in (await client.list_tools()).tools:
            app: dict[str, Any] = (tool.meta or {}).get("ui") or {}
            page = app.get("resourceUri")
            if page:
                [content] = (await client.read_resource(page)).contents
                done = await client.call_tool(tool.name, {})
                said = getattr(done.content[0], "text", "")
                seen[tool.name] = (page, content.mime_type, content.meta, said)
                assert said.partition(":")[0].split()[0] in getattr(content, "text", "")
        seen["reads old"] = True
        try:
            await client.read_resource(OLD)
        except MCPError:
            seen["reads old"] = False

    async def session() -> None:
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as sender:
            server = streamable_http_client(f"{url}{door}", http_client=sender)
            async with Client(server, mode=mode, **more) as client:
                await look(client)

    anyio.run(session)
    return seen


@pytest.mark.parametrize("mode", MODES)
def test_each_tool_leads_to_the_page_of_its_own_server(home: Path, url: str, mode: Mode) -> None:
    """Though two servers call it the same; the servers hear that pages can be shown."""
    seen = see(home, url, mode, "old", "new", extensions=[SHOWS_PAGES])
    assert seen == {
        "declared": True,
        "old__show_chart": (OLD, PAGE_TYPE, META, "Old: True"),
        "old__refresh_chart": (OLD, PAGE_TYPE, META, "Old again"),
        "new__show_chart": (NEW, PAGE_TYPE, META, "New: True"),
        "new__refresh_chart": (NEW, PAGE_TYPE, META, "New again"),
        "reads old": True,
    }


@pytest.mark.parametrize("mode", MODES)
def test_nobody_reads_the_page_of_another_server(home: Path, url: str, mode: Mode) -> None:
    """That is a server which the token is not for."""
    seen = see(home, url, mode, "new", "files", extensions=[SHOWS_PAGES])
    assert seen.pop("declared")
    assert not seen.pop("reads old")
    assert {row[0] for row in seen.values()} == {NEW}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("server", "more"),
    [
        ("files", {"extensions": [SHOWS_PAGES]}),
        ("new", {}),
        ("new", {"extensions": [SHOWS_PAGES], "door": "/mcp/search"}),
    ],
    ids=["no pages", "no client for them", "no such tools"],
)
def test_nothing_is_declared_without_need(
    home: Path, url: str, mode: Mode, server: str, more: dict[str, Any]
) -> None:
    seen = see(home, url, mode, server, **more)
    assert not seen.pop("declared")
    assert not seen.pop("reads old")
    assert bool(seen) is (server == "new" and "door" not in more)


def test_icons_of_tools_pass_through(tmp_path: Path) -> None:
    """Also a change of them alone is no changed definition."""
    icons = [{"src": "https://x.y/read.png", "mimeType": "image/png", "sizes": ["48x48"]}]
    tool = ToolSpec(server="files", name=READ_FILE["name"], icons=icons)
    assert tool.digest == ToolSpec(server="files", name=READ_FILE["name"]).digest

    async def look(client: Client) -> None:
        listed = next(each for each in (await client.list_tools()).tools if each.icons)
        assert listed.model_dump(by_alias=True, exclude_none=True)["icons"] == icons

    with gateway(tmp_path, files=Scripted(tmp_path)({**READ_FILE, "icons": icons})) as url:
        talk(f"{url}/mcp/all", look)
