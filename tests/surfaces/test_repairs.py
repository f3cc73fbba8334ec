"""Repairs of tools hold at every door: the new name and texts are seen, the old name is called."""

import json
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from tests.support import FUZZY, Cli, Scripted, create_token, fetch, post, tool, until
from tests.surfaces.doors import CALLED, DOORS, Visit
from tests.surfaces.mcp.test_mcp import MODES, Mode, said, talk
from tests.surfaces.web.browser import Browser

_TEXT = {"type": "string"}
THING = tool(
    "create_thing",
    "Creates a thing",
    inputSchema={
        "type": "object",
        "properties": {"owner": _TEXT, "limit": {"type": "integer"}, "mark": _TEXT},
        "required": ["owner", "limit", "mark"],
    },
)
PLAIN = tool("plain", "Something else")
REPAIR: dict[str, Any] = {
    "name": "add_note",
    "description": "Puts a memo on the board",
    "arguments": {
        "owner": {"value": "acme"},
        "limit": {"default": 20, "description": "How many lines"},
    },
    "annotations": {"readOnlyHint": True},
}
SCHEMA = {
    "type": "object",
    "properties": {
        "limit": {"type": "integer", "description": "How many lines", "default": 20},
        "mark": _TEXT,
    },
    "required": ["mark"],
}


class Place:
    """A gateway over a server of which one tool is repaired."""

    def __init__(self, scripted: Scripted) -> None:
        self.scripted = scripted
        self.calls = scripted.directory / "calls"
        self.starts = scripted.directory / "starts"
        self.tools = scripted.directory / "tools.json"
        self.tools.write_text(json.dumps([THING, PLAIN]), "utf-8")
        self.cli = Cli(scripted.directory, FUZZY)
        self.configure({"create_thing": REPAIR})
        self.url = self.cli.start_gateway()

    def configure(self, tools: Any, **more: Any) -> None:
        entry = self.scripted(
            tools_file=str(self.tools), calls=str(self.calls), starts=str(self.starts)
        )
        self.cli.configure(s={**entry, "tools": tools, **more})

    def get(self, path: str, token: str = "") -> Any:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return fetch(self.url, path, headers=headers)[1]

    def ids(self, token: str = "") -> list[str]:
        return [each["toolId"] for each in self.get("/tools", token)["tools"]]

    def called(self) -> list[dict[str, Any]]:
        """The calls that the server has got since the last look."""
        lines = self.calls.read_text("utf-8").splitlines() if self.calls.exists() else []
        self.calls.unlink(missing_ok=True)
        calls = map(json.loads, lines)
        return [{"name": each["name"], "arguments": each["arguments"]} for each in calls]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Generator[Place]:
    place = Place(Scripted(tmp_path_factory.mktemp("repairs")))
    with place.cli:
        until(lambda: "s__add_note" in place.ids(), "the tool is listed")
        yield place


@pytest.fixture(scope="module")
def token(place: Place) -> Generator[str]:
    """A token, without which the doors do not open while there is one."""
    yield create_token(place.cli)["token"]
    assert place.cli("token", "off").returncode == 0


def gets(**given: Any) -> list[dict[str, Any]]:
    arguments = {"limit": 20, **given, "owner": "acme"}
    return [{"name": "create_thing", "arguments": arguments}]


@pytest.mark.parametrize("mode", MODES)
def test_mcp_lists_and_calls_it_in_both_protocols(place: Place, mode: Mode) -> None:
    place.called()

    async def all_tools(client: Client) -> None:
        [listed] = [t for t in (await client.list_tools()).tools if "add_note" in t.name]
        assert listed.name == "s__add_note"
        assert listed.description == REPAIR["description"]
        assert listed.input_schema == SCHEMA
        assert listed.annotations
        assert listed.annotations.read_only_hint
        await said(client, "s__add_note", {"mark": "all", "limit": 3})

    async def search(client: Client) -> None:
        found = await client.call_tool(
            "search_tools", {"query": "add note: puts a memo on the board"}
        )
        assert re.search(r"s__add_note \.\d\d \(mark", str(found.content))
        arguments = {"tool": "s:add_note", "arguments": {"mark": "one"}}
        await client.call_tool("read_tool", arguments)

    talk(f"{place.url}/mcp/all", all_tools, mode)
    talk(f"{place.url}/mcp", search, mode)
    assert place.called() == [*gets(mark="all", limit=3), *gets(mark="one")]


def test_it_is_shown_as_repaired(place: Place) -> None:
    words = "repaired by the configuration; its server calls it create_thing"
    [answer] = [each for each in place.get("/tools")["tools"] if each["toolName"] == "add_note"]
    assert (answer["ownName"], answer["inputSchema"]) == ("create_thing", SCHEMA)
    assert (answer["toolClass"], answer["classSource"]) == ("read", "config")
    assert words in place.cli("describe", "s__add_note").stdout
    found = place.get("/search?q=memo+on+the+board&threshold=0&why=s__add_note")
    assert found["results"][0]["toolId"] == "s__add_note"
    assert found["why"]["verdict"].endswith(f"; {words}")
    assert "ownName" not in place.get("/search?q=plain")["results"][0]
    missing = place.cli("search", "memo", "--why", "s__create_thing").stdout
    assert "s__create_thing: the configuration calls it s__add_note" in missing
    page = Browser(place.url).log_in(place.cli).page("/ui/tools/s__add_note")
    assert "its server calls it create_thing" in page.text


def test_arguments_are_checked_by_the_repaired_schema(place: Place) -> None:
    place.called()
    status, answer = post(place.url, "/tools/s__add_note", {"limit": 1})
    assert (status, place.called()) == (400, [])
    assert "limit (integer)" in answer["error"]
    assert "owner" not in answer["error"]
    assert post(place.url, "/tools/s__create_thing", {"mark": "x"})[0] == 404
    assert post(place.url, "/tools/s__add_note", {"mark": "x", "owner": "other"})[0] == 200
    assert place.called() == gets(mark="x")


def test_a_pinned_definition_stays_the_servers_own(place: Place) -> None:
    changed = {**THING, "description": "Creates another thing"}
    place.tools.write_text(json.dumps([changed, PLAIN]), "utf-8")
    until(lambda: place.ids() == ["s__plain"], "it is held")
    assert "s__add_note is held" in str(post(place.url, "/tools/s__add_note", {"mark": "x"})[1])
    [held] = place.cli.json("review")["held"]
    assert (held["toolId"], held["ownName"]) == ("s__add_note", "create_thing")
    pieces = [piece["text"] for change in held["changes"] for piece in change["pieces"]]
    assert "another" in "".join(pieces)
    assert "memo" not in "".join(pieces)
    assert "its server calls it create_thing" in place.cli("review").stdout
    assert place.cli("review", f"s__add_note@{held['digest']}", "--approve").returncode == 0
    until(lambda: "s__add_note" in place.ids(), "it is approved")
    assert place.cli.json("describe", "s__add_note")["trust"] == "pinned"


def test_changed_repairs_hold_at_once_and_the_server_runs_on(place: Place) -> None:
    before = place.starts.read_text("utf-8")
    steps: list[tuple[Any, list[str]]] = [
        ({"create_thing": {**REPAIR, "name": "jot"}}, ["s__jot", "s__plain"]),
        ({"create_thing": REPAIR, "plain": {"name": "add_note"}}, ["s__create_thing", "s__plain"]),
        ({"create_thing": {**REPAIR, "name": "plain"}}, ["s__create_thing", "s__plain"]),
        (
            {"create_thing": {**REPAIR, "name": "plain"}, "plain": {"name": "create_thing"}},
            ["s__create_thing", "s__plain"],
        ),
        (
            {"create_thing": {"annotations": REPAIR["annotations"], "arguments": {"no": {}}}},
            ["s__create_thing", "s__plain"],
        ),
        ({"create_thing": REPAIR, "gone": {}}, ["s__add_note", "s__plain"]),
    ]
    problems = [
        [],
        [
            "tools.create_thing is left out: two tools would have the name add_note",
            "tools.plain is left out: two tools would have the name add_note",
        ],
        ["tools.create_thing is left out: two tools would have the name plain"],
        [],
        ["tools.create_thing.arguments names 'no', which the tool does not take"],
        ["tools names 'gone', which the server does not offer"],
    ]
    hint = {"create_thing": {"annotations": REPAIR["annotations"]}}
    for (tools, ids), lines in zip(steps, problems, strict=True):
        place.configure({**hint, **tools})

        def holds(ids: list[str] = ids, lines: list[str] = lines) -> bool:
            [server] = place.get("/servers")["servers"]
            return place.ids() == ids and sorted(server["rejected"]) == lines

        until(holds, f"{tools}")
    assert place.starts.read_text("utf-8") == before


def test_lists_go_by_the_servers_names_and_rules_by_those_that_are_seen(place: Place) -> None:
    tools = {"create_thing": REPAIR}
    place.configure(tools, includeTools=["create_thing"])
    until(lambda: place.ids() == ["s__add_note"], "includeTools has the server's name")
    place.configure(tools, excludeTools=["create_thing"])
    until(lambda: place.ids() == ["s__plain"], "excludeTools has the server's name")
    place.configure(tools, permissions={"create_thing": "deny"})
    until(lambda: place.ids() == ["s__add_note", "s__plain"], "the rule has no tool")
    place.configure(tools, permissions={"add_note": "deny"})
    until(lambda: place.ids() == ["s__plain"], "the rule has the name that is seen")


@pytest.mark.parametrize("door", DOORS)
def test_every_door_calls_the_old_name_with_the_fixed_arguments(
    place: Place, token: str, door: str, tmp_path: Path
) -> None:
    place.configure({"create_thing": REPAIR})
    place.called()
    visit = Visit(
        cli=place.cli,
        url=place.url,
        token=token,
        narrow=token,
        profile="none",
        classes={"add_note": "read"},
        marks={"add_note": door},
        folder=tmp_path,
    )
    until(lambda: place.ids(token) == ["s__add_note", "s__plain"], "the repair of the beginning")
    assert DOORS[door](visit) == {"add_note": CALLED}
    assert place.called() == gets(mark=door)
