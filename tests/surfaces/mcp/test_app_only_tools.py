"""Tools of MCP Apps that are for a server's page alone: models neither find nor call them."""

import json
from typing import Any

import pytest
from mcp.client import Client
from tests.support import FUZZY, Cli, Scripted, tool
from tests.surfaces.mcp.test_mcp import talk

META = {"ui": {"visibility": ["app"], "resourceUri": "ui://chart"}}
REFRESH = tool("refresh_chart", "Refresh the chart") | {"_meta": META}
SHOW = tool("show_chart", "Show a chart") | {"_meta": {"ui": {"visibility": ["model", "app"]}}}


@pytest.fixture
def url(cli: Cli, scripted: Scripted) -> str:
    cli.env = FUZZY
    cli.configure(charts=scripted(REFRESH, SHOW))
    return cli.start_gateway()


def text_of(result: Any) -> str:
    return str(result.content[0].text)


def test_models_neither_find_nor_call_them(url: str, cli: Cli) -> None:
    async def work(client: Client) -> None:
        found = text_of(await client.call_tool("search_tools", {"query": "refresh chart"}))
        assert "charts__show_chart" in found
        assert "refresh_chart" not in found
        call: dict[str, Any] = {"tool": "charts__refresh_chart", "arguments": {}}
        for name in ("read_tool", "call_tool", "call_destructive_tool"):
            refused = await client.call_tool(name, call)
            assert refused.is_error
        assert "is for the page of charts, not for models" in text_of(refused)
        described = await client.call_tool("describe_tools", {"tools": ["charts__refresh_chart"]})
        assert "Refresh the chart" not in text_of(described)
        direct = await client.call_tool("charts__refresh_chart", {})
        assert direct.is_error

    talk(f"{url}/mcp", work)
    assert cli.json("search", "refresh_chart")["results"] == []


def test_clients_of_all_tools_get_them_with_their_meta(url: str) -> None:
    async def work(client: Client) -> None:
        listed = {each.name: each for each in (await client.list_tools()).tools}
        meta = json.loads(listed["charts__refresh_chart"].model_dump_json(by_alias=True))["_meta"]
        page = "ui://toolscript/charts/ui://chart"
        assert meta == {"ui": {"visibility": ["app"], "resourceUri": page}}
        done = await client.call_tool("charts__refresh_chart", {})
        assert not done.is_error

    talk(f"{url}/mcp/all", work)
