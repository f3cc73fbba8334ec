"""What a model gets that states no optional argument: each door's defaults, over thirty tools."""

import json
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from tests.support import Scripted, fetch, post, tool
from tests.surfaces.mcp.test_mcp import MODES, Mode, gateway, talk

NAMES = [f"open_{kind}_{number}" for kind in ("issue", "branch", "page") for number in range(10)]
QUERY = "open an issue"
LINE = re.compile(r"^(s__\S+) (1\.00|\.\d\d) \(.*\) \[(\w+)\]")


def listed(tools: list[Any], name: str) -> dict[str, Any]:
    [schema] = [each["inputSchema"] for each in tools if each["name"] == name]
    return schema["properties"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("defaults")


@pytest.fixture(scope="module")
def url(home: Path) -> Generator[str]:
    server = Scripted(home)(*(tool(name, f"Opens the {name}") for name in NAMES))
    with gateway(home, s=server) as address:
        yield address


async def ask(client: Client, name: str, query: str = QUERY) -> tuple[str, list[tuple[str, float]]]:
    """The verdict of a search by the query alone, and its lines' ids and scores."""
    result = await client.call_tool(name, {"query": query})
    verdict, *lines = str(getattr(result.content[0], "text", "")).splitlines()
    rows = [match for line in lines if (match := LINE.match(line))]
    return verdict, [(row[1], float(row[2])) for row in rows]


async def check_search(client: Client) -> None:
    tools = [t.model_dump(by_alias=True) for t in (await client.list_tools()).tools]
    assert listed(tools, "search_tools")["limit"]["default"] == 10
    for query in (QUERY, "zxqv blorp"):  # no threshold keeps anything from a model
        verdict, rows = await ask(client, "search_tools", query)
        assert len(rows) == 10
        scores = [score for _, score in rows]
        assert scores == sorted(scores, reverse=True)
        waiting = verdict.startswith("fit: not known yet")  # the tools are not embedded yet
        assert waiting or verdict.startswith("fit: none" if max(scores) < 0.35 else "fit: ")
    result = await client.call_tool("search_tools", {"query": QUERY, "detail": True})
    assert len(json.loads(str(getattr(result.content[0], "text", ""))).get("tools")) == 10


@pytest.mark.requirement("mcp:search_tools")
@pytest.mark.parametrize("mode", MODES)
def test_a_model_gets_ten_lines_over_http(url: str, mode: Mode) -> None:
    talk(f"{url}/mcp", check_search, mode)


@pytest.mark.requirement("mcp:search_tools")
def test_the_seeds_own_door_gives_ten_tools_in_json(url: str) -> None:
    """mcp:search_tools: no optional argument, no threshold, and a list that says so."""

    def send(method: str, **params: Any) -> Any:
        status, answer = post(url, "/message", {"method": method, "params": params, "id": 1})
        assert status == 200
        return answer["result"]

    assert listed(send("tools/list")["tools"], "search_tools")["limit"]["default"] == 10
    for query in (QUERY, "zxqv blorp"):
        found = send("tools/call", name="search_tools", arguments={"query": query})
        tools = json.loads(found["content"][0]["text"])["tools"]
        assert len(tools) == 10
        assert all({"score", "fused", "semantic_score", "graph_score"} <= {*t} for t in tools)


@pytest.mark.requirement("mcp:tool_search")
@pytest.mark.parametrize("mode", MODES)
def test_phase_two_lists_the_four_best_and_the_search(url: str, mode: Mode) -> None:
    """mcp:tool_search: also if no tool fits, and nothing else; the call tools work unlisted."""

    async def work(client: Client) -> None:
        tools = [t.model_dump(by_alias=True) for t in (await client.list_tools()).tools]
        assert [each["name"] for each in tools] == ["tool_search"]
        assert tools[0]["description"].startswith("Search for relevant tools based on your task")
        assert listed(tools, "tool_search")["max_tools"]["default"] == 4
        for query in (QUERY, "zxqv blorp"):
            _, rows = await ask(client, "tool_search", query)
            assert len(rows) == 4
            again = (await client.list_tools(cache_mode="refresh")).tools
            assert {each.name for each in again} == {"tool_search", *(name for name, _ in rows)}
        called = await client.call_tool(
            "call_destructive_tool", {"tool": rows[0][0], "arguments": {}}
        )
        assert not called.is_error

    talk(f"{url}/mcp/two-phase", work, mode)


@pytest.mark.requirement("search:limit", "search:threshold")
def test_the_route_of_commands_keeps_three_and_the_threshold(url: str) -> None:
    _, answer = fetch(url, "/search?q=zxqv+blorp")
    assert (answer["limit"], answer["threshold"], answer["results"]) == (3, 0.35, [])
    _, answer = fetch(url, "/search?q=zxqv+blorp&threshold=0")
    assert len(answer["results"]) == 3
