"""The graph at every door: learned from calls, used by search, shown and filled."""

import json
import math
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import types
from mcp.client import Client
from tests.postgres_server import content_of
from tests.support import FUZZY, PATIENCE_S, Cli, Scripted, create_token, fetch, post, tool, until

HABIT = ("open_note", "write_note", "close_note")
IDS = [f"notes__{name}" for name in HABIT]
GIVEN = "the contents of the note"
QUESTION = "put+that+paper+away"
SESSION = {"Content-Type": "application/json", "Toolscript-Session": "one"}


def servers(home: Path) -> dict[str, Any]:
    scripted = Scripted(home)
    notes = [tool(name, f"{name.split('_', maxsplit=1)[0].title()} a note") for name in HABIT]
    failing = tool("burn_note", "Burn a note")
    results: dict[str, Any] = {"burn_note": {"content": [], "isError": True}}
    return {
        "notes": scripted(*notes, failing, results=results),
        "mail": scripted(tool("send_mail", "Send a note by mail")),
    }


@pytest.fixture
def place(tmp_path: Path, storage: dict[str, str]) -> Generator[Cli]:
    """A gateway that has learned nothing yet."""
    cli = Cli(tmp_path, FUZZY, storage)
    cli.configure(**servers(tmp_path))
    with cli:
        yield cli


def session(url: str, *tools: str) -> None:
    """One client's calls, one after the other, over MCP."""

    async def work() -> None:
        with anyio.fail_after(PATIENCE_S):
            async with Client(f"{url}/mcp", mode="legacy") as client:
                for name in tools:
                    given = {"tool": name, "arguments": {"text": GIVEN}}
                    await client.call_tool("call_destructive_tool", given)

    anyio.run(work)


def teach(place: Cli) -> None:
    """A log of a habit, long enough for the graph to prove that it foresees it."""
    (place.home / "habit.json").write_text(json.dumps({"sequences": [LOG["sequences"][0]] * 60}))
    assert place("graph", "import", "habit.json").returncode == 0


def learned(url: str, edges: int) -> dict[str, Any]:
    def probe() -> dict[str, Any] | None:
        answer = fetch(url, "/graph")[1]
        return answer if answer["stats"]["edges"] >= edges else None

    return until(probe, f"{edges} edges are learned")


def asked(url: str, **arguments: Any) -> dict[str, Any]:
    """The seed's request, over ``POST /message``."""
    call = {"method": "tools/call", "params": {"name": "search_tools", "arguments": arguments}}
    status, answer = post(url, "/message", call)
    assert status == 200
    return json.loads(answer["result"]["content"][0]["text"])


def check_formula(found: dict[str, Any]) -> None:
    alpha = found["meta"]["alpha"]
    for each in found["tools"]:
        expected = alpha * each["semantic_score"] + (1 - alpha) * each["graph_score"]
        assert each["score"] == pytest.approx(expected, abs=1e-4)


@pytest.mark.both_storages
@pytest.mark.requirement("mcp:search_tools", "graph:context")
def test_calls_teach_the_graph_which_search_uses(place: Cli) -> None:
    url = place.start_gateway()
    before = asked(url, query="a note", context_tools=["notes:open_note"])
    assert before["meta"] | {"degraded": 0} == {
        "query": "a note",
        "alpha": 1,
        "graph_edges": 0,
        "degraded": 0,
    }
    assert all(each["graph_score"] == 0 for each in before["tools"])
    for _ in range(4):
        session(url, *IDS[:2], "notes__burn_note", IDS[2])
    learned(url, 3)
    assert until(lambda: fetch(url, "/graph")[1]["stats"]["calls"] == 16, "all are learned")
    stats = fetch(url, "/graph")[1]["stats"]
    assert stats["edges"] == 3  # what failed is counted, and leads nowhere
    assert stats["skill"] > 0.3
    after = asked(url, query="a note", context_tools=["notes:open_note"])
    assert (after["meta"]["alpha"], after["meta"]["graph_edges"]) == (0.8, 3)
    check_formula(after)
    first, second = after["tools"][:2]
    assert {first["id"], second["id"]} == {"notes:write_note", "notes:close_note"}
    assert first["graph_score"] == second["graph_score"] == 0.5906  # 1 / ln 2 in [0, 1)
    assert set(first) >= {
        *("id", "name", "server", "description", "score", "semantic_score", "graph_score")
    }
    written = next(each for each in after["tools"] if each["id"] == "notes:write_note")
    assert written["related"]["before"] == [
        {"id": "notes:open_note", "evidence": "used right before it 4 times"}
    ]
    silent = asked(url, query="a note")
    assert silent["meta"]["alpha"] == 1
    assert [(t["id"], t["score"]) for t in silent["tools"]] == [
        (t["id"], t["score"]) for t in before["tools"]
    ]


@pytest.mark.requirement("graph:alpha", "graph:context", "graph:methods", "mcp:search_tools")
def test_the_seeds_wire_has_the_seeds_formula(place: Cli) -> None:
    """graph:alpha, graph:context, graph:methods, mcp:search_tools: templates, before any use."""
    url = place.start_gateway()
    plain = asked(url, query="a note", context_tools=[])["tools"]
    own = {each["id"]: each["score"] for each in plain}
    # Three tools are beside write_note; so each two of them share a neighbour with degree 3.
    shared = 1 / math.log(3)
    related = dict.fromkeys(("notes:close_note", "mail:send_mail"), shared / (1 + shared))
    pairs = [IDS[:2], IDS[1:], [IDS[1], "mail__send_mail"]]
    pairs += [["other__hub", f"other__{number}"] for number in range(197)]
    for edges, alpha in ((0, 1), (3, 0.8), (49, 0.8), (50, 0.6), (199, 0.6), (200, 0.5)):
        if edges:
            workflows = [{"steps": pair} for pair in pairs[:edges]]
            (place.home / "flows.json").write_text(json.dumps({"workflows": workflows}))
            assert place("graph", "import", "flows.json").returncode == 0
        found = asked(url, query="a note", context_tools=["notes:open_note"])
        assert (found["meta"]["alpha"], found["meta"]["graph_edges"]) == (alpha, edges)
        assert place.json("graph", "stats")["alpha"] == alpha
        for each in found["tools"]:
            graph = related.get(each["id"], 0.0) if edges else 0.0
            assert each["graph_score"] == round(graph, 4)
            assert each["semantic_score"] == own[each["id"]]
            expected = alpha * own[each["id"]] + (1 - alpha) * graph
            assert each["score"] == pytest.approx(expected, abs=1e-4)
        silent = asked(url, query="a note", context_tools=["notes:burn_note"])
        assert silent["meta"]["alpha"] == 1
        assert [{**each, "related": 0} for each in silent["tools"]] == [
            {**each, "related": 0} for each in plain
        ]


@pytest.mark.both_storages
@pytest.mark.requirement("mcp:search_tools", "graph:context")
def test_the_context_is_what_the_session_has_used(place: Cli) -> None:
    url = place.start_gateway()
    teach(place)

    async def work() -> None:
        with anyio.fail_after(PATIENCE_S):
            async with Client(f"{url}/mcp", mode="legacy") as client:
                await client.call_tool("call_destructive_tool", {"tool": IDS[0], "arguments": {}})

                async def said(**more: Any) -> dict[str, Any]:
                    asked = {"query": "a note", "detail": True, **more}
                    result = await client.call_tool("search_tools", asked)
                    [block] = result.content
                    assert isinstance(block, types.TextContent)
                    return json.loads(block.text)

                found = await said()
                assert found["meta"]["alpha"] == 0.8
                assert found["tools"][0]["graph_score"] > 0
                check_formula(found)
                without = await said(context_tools=[])
                assert without["meta"]["alpha"] == 1
                assert all(each["graph_score"] == 0 for each in without["tools"])
                assert (await said())["meta"] == found["meta"]

    anyio.run(work)
    body = json.dumps({}).encode()
    called = fetch(url, f"/tools/{IDS[0]}", method="POST", headers=SESSION, body=body)
    assert called[0] == 200
    call = {"name": "search_tools", "arguments": {"query": "a note"}}
    without: dict[str, Any] = {**call, "arguments": {"query": "a note", "context_tools": []}}
    for params, alpha in ((call, 0.8), (without, 1)):
        message = json.dumps({"method": "tools/call", "params": params}).encode()
        _, answer = fetch(url, "/message", method="POST", headers=SESSION, body=message)
        assert json.loads(answer["result"]["content"][0]["text"])["meta"]["alpha"] == alpha
    _, answer = post(url, "/message", {"method": "tools/call", "params": call})
    assert json.loads(answer["result"]["content"][0]["text"])["meta"]["alpha"] == 1


@pytest.mark.both_storages
@pytest.mark.requirement("graph:learning")
def test_what_was_learned_survives_a_restart_and_holds_nothing_of_the_arguments(place: Cli) -> None:
    url = place.start_gateway()
    session(url, *IDS)
    assert place("gateway", "stop").returncode == 0
    stored = content(place)
    assert GIVEN.encode() not in stored
    assert all(name.encode() in stored for name in IDS)
    for path in place.home.rglob("graph-*.sqlite"):
        assert path.stat().st_mode & 0o077 == 0
    url = place.start_gateway()
    assert fetch(url, "/graph")[1]["stats"]["edges"] == 3


def content(place: Cli) -> bytes:
    """What is stored, where the graph is."""
    if database := place.storage.get("TOOLSCRIPT_DATABASE"):
        return content_of(database)
    [path] = place.home.rglob("graph-*.sqlite")
    return path.read_bytes()


@pytest.mark.both_storages
@pytest.mark.requirement("graph:learning")
def test_learning_can_be_switched_off(place: Cli) -> None:
    place.env = {**FUZZY, "TOOLSCRIPT_NO_LEARNING": "true"}
    url = place.start_gateway()
    session(url, *IDS)
    assert not list(place.home.rglob("graph-*.sqlite"))
    if database := place.storage.get("TOOLSCRIPT_DATABASE"):
        assert content_of(database, "graph_tool", "graph_edge") == b""
    found = asked(url, query="a note", context_tools=["notes:open_note"])
    assert found["meta"]["graph_edges"] == 0
    status, answer = fetch(url, "/graph")
    assert status == 400
    assert "TOOLSCRIPT_NO_LEARNING" in answer["error"]


WORKFLOWS = {
    "workflows": [{"steps": IDS}],
    "dependencies": [["notes__close_note", "notes__open_note"]],
}
FAILED = [{"tool": IDS[0]}, {"tool": IDS[1], "ok": False}]
LOG = {"sequences": [[{"tool": each} for each in IDS], FAILED]}


@pytest.mark.both_storages
@pytest.mark.requirement("graph:methods")
@pytest.mark.parametrize("running", [False, True])
def test_the_commands(place: Cli, *, running: bool) -> None:
    assert place("list-servers").returncode == 0
    if running:
        place.start_gateway()
    empty = place("graph", "show")
    assert empty.stdout.startswith("nothing is learned yet: an edge needs two calls")
    for _ in range(2):
        assert place("call", IDS[0], "{}").returncode == 0
    used = place("graph", "show").stdout
    # A command without a gateway has ended before its call is learned, or after that.
    assert used.startswith("2 calls learned, none after another of its session: an edge needs")
    assert place("graph", "clear").returncode == 0
    (place.home / "flows.json").write_text(json.dumps(WORKFLOWS))
    taken = place("graph", "import", "flows.json")
    assert taken.stdout == "learned 0 calls and 3 new edges; the graph has 3 edges now\n"
    (place.home / "log.json").write_text(json.dumps(LOG))
    assert "learned 5 calls and 1 new edge;" in place("graph", "import", "log.json").stdout
    rows = place("graph", "show").stdout.splitlines()
    assert rows[0].split() == ["From", "To", "Kind", "Weight", "Times"]
    assert len(rows) == 5
    related = place("graph", "related", IDS[2]).stdout
    assert "before it" in related
    assert "declared to be needed first" in related
    assert place.json("graph", "stats")["edges"] == 4
    assert place.json("graph", "show", "--limit", "1")["edges"][0]["source"].startswith("notes__")
    gone = place("graph", "clear")
    assert gone.stdout == "forgot 4 edges and 5 calls\n"
    assert "nothing is learned yet" in place("graph", "show").stdout


def test_tools_that_are_not_there_are_named(place: Cli) -> None:
    """They are learned all the same: their server may come later."""
    steps = [IDS[0], *(f"nope__x{number}" for number in range(6)), IDS[1]]
    (place.home / "flows.json").write_text(json.dumps({"workflows": [{"steps": steps}]}))
    done = place("graph", "import", "flows.json")
    assert (done.returncode, done.stdout.count("7 new edges")) == (0, 1)
    names = ", ".join(f"nope__x{number}" for number in range(5))
    assert done.stderr == f"toolscript: not among your tools: {names}, and 1 more\n"
    (place.home / "log.json").write_text(json.dumps(LOG))
    assert place("graph", "import", "log.json").stderr == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("import", "gone.json"), "gone.json cannot be read: No such file or directory"),
        (("import", "odd.json"), "the file is not JSON"),
        (("import", "blob"), "blob is not text"),
        (("related", "notes__opne_note"), "the nearest are: notes__open_note"),
        (("show", "--limit", "0"), "limit is 0; it must be from 1 to 1000"),
    ],
)
def test_what_a_command_cannot_use(place: Cli, arguments: tuple[str, ...], said: str) -> None:
    (place.home / "odd.json").write_text("{")
    (place.home / "blob").write_bytes(b"\xff\xfe\x00")
    assert place("list-servers").returncode == 0
    done = place("graph", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.both_storages
def test_a_token_sees_its_part_and_changes_nothing(place: Cli) -> None:
    url = place.start_gateway()
    session(url, *IDS[:2], "mail__send_mail")
    learned(url, 3)
    made = create_token(place, "--name", "mine", "--server", "notes")
    headers = {"Authorization": f"Bearer {made['token']}"}
    status, seen = fetch(url, "/graph", headers=headers)
    assert status == 200, seen
    assert seen["stats"] is None
    assert [(edge["source"], edge["target"]) for edge in seen["edges"]] == [(IDS[0], IDS[1])]
    _, related = fetch(url, "/graph/related", {"tool": IDS[1]}, headers=headers)
    assert related["after"] == []
    assert fetch(url, "/graph/related", {"tool": "mail__send_mail"}, headers=headers)[0] == 404
    sent = {**headers, "Content-Type": "application/json"}
    for path, body in (
        ("/graph/clear", b"{}"),
        ("/graph/import", b'{"sequences": [[{"tool": "a__b"}]]}'),
    ):
        assert fetch(url, path, method="POST", headers=sent, body=body)[0] == 403


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/graph?limit=many", "expected a whole number"),
        ("/graph/related", "the parameter tool is missing"),
    ],
)
def test_what_a_route_cannot_use(place: Cli, path: str, said: str) -> None:
    url = place.start_gateway()
    status, answer = fetch(url, path)
    assert status == 400
    assert said in answer["error"]


@pytest.mark.both_storages
@pytest.mark.requirement("graph:learning")
def test_a_limited_token_changes_nobody_elses_searches(place: Cli) -> None:
    """Its own are changed, and stay so over a restart; the owner's uses count for all."""
    place.env = {}
    url = place.start_gateway()
    limits = ("--server", "notes"), ("--server", "notes"), ()
    bearers = [create_token(place, *limit)["token"] for limit in limits]
    owner = place.record()["key"]

    def use(bearer: str) -> None:
        headers = {**SESSION, "Authorization": f"Bearer {bearer}"}
        found = fetch(url, f"/search?q={QUESTION}&threshold=0", headers=headers)[1]
        assert IDS[2] in {each["toolId"] for each in found["results"]}
        called = fetch(url, f"/tools/{IDS[2]}", method="POST", headers=headers, body=b"{}")
        assert called[0] == 200

    def scores(bearer: str) -> dict[str, float]:
        headers = {"Authorization": f"Bearer {bearer}"}
        found = fetch(url, f"/search?q={QUESTION}&threshold=0", headers=headers)[1]
        return {each["toolId"]: each["confidence"] for each in found["results"]}

    fake, *others = bearers
    before = [scores(each) for each in (fake, *others, owner)]
    use(fake)
    until(lambda: scores(fake)[IDS[2]] > before[0][IDS[2]], "it learns for itself")
    learned_then = scores(fake)
    assert [scores(each) for each in (*others, owner)] == before[1:]
    assert (
        fetch(url, "/graph", headers={"Authorization": f"Bearer {owner}"})[1]["stats"]["calls"] == 0
    )
    assert place("gateway", "stop").returncode == 0
    url, owner = place.start_gateway(), place.record()["key"]
    assert [scores(each) for each in (fake, *others, owner)] == [learned_then, *before[1:]]
    use(owner)
    until(lambda: scores(others[0])[IDS[2]] > before[1][IDS[2]], "the owner teaches all")
