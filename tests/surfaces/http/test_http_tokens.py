"""Who may see what, at a gateway's door: http:others."""

import http.client
import json
from typing import Any

import pytest
from tests.support import (
    FUZZY,
    READ_FILE,
    SEND_MAIL,
    Cli,
    Scripted,
    fetch,
    revoke_token,
    tool,
    until_known,
)

pytestmark = pytest.mark.both_storages
PATHS = ["/search?q=send_mail", "/servers", "/tools", "/search/stats"]


@pytest.fixture
def guarded(cli: Cli, scripted: Scripted) -> Cli:
    """A gateway of two servers, still without a token."""
    cli.env = FUZZY
    cli.configure(files=scripted(READ_FILE, tool("wipe")), mail=scripted(SEND_MAIL))
    cli.start_gateway()
    return cli


def made(cli: Cli, *arguments: str) -> str:
    done = cli("token", "create", *arguments)
    assert done.returncode == 0, done.stderr
    token = done.stdout.strip()
    until_known(cli, token)
    return token


def ask(cli: Cli, path: str, token: str | None = None) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    return fetch(cli.record()["url"], path, headers=headers)


def test_a_browser_is_sent_to_the_page(guarded: Cli) -> None:
    """With and without a token; programs are told the paths that are."""
    url, token = guarded.record()["url"], made(guarded)
    for headers in ({"Authorization": f"Bearer {token}"}, dict[str, str]()):
        connection = http.client.HTTPConnection(url.removeprefix("http://"))
        connection.request("GET", "/", headers={**headers, "Accept": "text/html,*/*;q=0.8"})
        response = connection.getresponse()
        assert (response.status, response.headers["location"]) == (307, "/ui")
        connection.close()
        status, answer = fetch(url, "/", headers=headers)
        assert status == 404
        assert "the page is at /ui, MCP at /mcp; there are /" in answer["error"]


def test_with_one_token_nobody_is_let_in_without(guarded: Cli) -> None:
    """http:others: at once, with no restart; the owner's commands go on."""
    token = made(guarded)
    for wrong in (None, "", "ts_wrong"):
        answers = [ask(guarded, path, wrong) for path in PATHS]
        assert [status for status, _ in answers] == [401] * 4
        assert {value["type"] for _, value in answers} == {"AccessError"}
    assert [ask(guarded, path, token)[0] for path in PATHS] == [200] * 4
    assert ask(guarded, "/health") == (200, {"status": "ready"})
    assert guarded.json("search", "send_mail")["results"][0]["toolId"] == "mail__send_mail"
    assert guarded("gateway", "status").returncode == 0


@pytest.mark.requirement("http:others")
def test_a_token_of_one_server_finds_and_lists_nothing_else(guarded: Cli) -> None:
    token = made(guarded, "--server", "files")
    status, found = ask(guarded, "/search?q=send_mail&threshold=0", token)
    assert status == 200
    assert {hit["serverName"] for hit in found["results"]} == {"files"}
    assert found["below"] is None
    assert [s["name"] for s in ask(guarded, "/servers", token)[1]["servers"]] == ["files"]
    listed = ask(guarded, "/tools", token)[1]["tools"]
    assert [each["toolId"] for each in listed] == ["files__read_file", "files__wipe"]
    for path in ("/tools?server=mail", "/search?q=x&server=mail"):
        status, value = ask(guarded, path, token)
        assert (status, value["type"]) == (404, "UnknownNameError")
        assert value["error"] == "no server is called 'mail'; configured are: files"


@pytest.mark.requirement("upstream:resources")
def test_only_who_may_see_all_is_told_what_servers_use(guarded: Cli) -> None:
    token, whole = made(guarded, "--server", "files"), made(guarded)
    path = "/servers?resources=true"
    fields = {"instances", "processes", "memoryMiB", "cpuSeconds"}
    [theirs] = ask(guarded, path, token)[1]["servers"]
    assert not fields & set(theirs)
    for server in ask(guarded, path, whole)[1]["servers"]:
        assert fields <= set(server)
        assert (server["instances"], server["processes"]) == (1, 1)
        assert server["memoryMiB"] > 1
        assert server["cpuSeconds"] >= 0
    for server in ask(guarded, "/servers", whole)[1]["servers"]:
        assert not fields & set(server), "nothing is measured that nobody asked for"


@pytest.mark.parametrize("path", ["/message", "/mcp", "/mcp/two-phase", "/mcp/all"])
def test_a_wrong_token_opens_no_door_of_the_protocol(guarded: Cli, path: str) -> None:
    """http:others: tests/surfaces/mcp/test_mcp_tokens.py has what a right one is kept from."""
    made(guarded)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
    for wrong in ({}, {"Authorization": "Bearer ts_wrong"}):
        headers = {"Accept": "application/json, text/event-stream", **wrong}
        url = guarded.record()["url"]
        assert fetch(url, path, method="POST", headers=headers, body=body)[0] == 401


def test_a_token_that_is_revoked_counts_no_more(guarded: Cli) -> None:
    """http:others: at once."""
    first, second = made(guarded, "--name", "ana"), made(guarded, "--name", "bo")
    rows = guarded.json("token", "list")["tokens"]
    assert [row["name"] for row in rows] == ["ana", "bo"]
    assert first not in json.dumps(rows)
    revoke_token(guarded, rows[0]["id"], first)
    assert ask(guarded, "/tools", first)[0] == 401
    assert ask(guarded, "/tools", second)[0] == 200
    assert "no token is left" in revoke_token(guarded, rows[1]["id"], second)
    assert ask(guarded, "/tools")[0] == 401


def test_a_command_elsewhere_shows_its_token(guarded: Cli) -> None:
    """http:others: TOOLSCRIPT_GATEWAY_TOKEN beside TOOLSCRIPT_GATEWAY_URL."""
    token = made(guarded, "--server", "files")
    elsewhere = {"TOOLSCRIPT_GATEWAY_URL": guarded.record()["url"]}
    done = guarded("list-tools", env=elsewhere)
    assert done.returncode == 1
    assert "this gateway asks for a token" in done.stderr
    found = guarded.json("list-tools", env=elsewhere | {"TOOLSCRIPT_GATEWAY_TOKEN": token})
    assert [each["serverName"] for each in found["tools"]] == ["files", "files"]


def test_what_is_granted_is_said(guarded: Cli) -> None:
    """http:others: and names that fit no server and no tool."""
    assert guarded("list-tools").returncode == 0
    words = ("--server", "file", "--tool", "mail__send_mail", "--tool", "mail__sent_*")
    words = (*words, "--server", "skills")
    done = guarded("token", "create", *words, "--days", "2")
    token = done.stdout.strip()
    assert token.startswith("ts_")
    server, no_tool, grants = done.stderr.splitlines()
    assert server == "toolscript: 'file' fits no server that is configured now"
    assert no_tool == "toolscript: 'mail__sent_*' fits no tool that is known now"
    granted = "grants file, skills, mail__send_mail, mail__sent_*; take it back with"
    assert granted in grants
    [row] = guarded.json("token", "list")["tokens"]
    assert row["expires"] > row["created"]


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("--profile", "nope", "no profile is called 'nope'; there are: none"),
        ("--permission", "foo", "--permission has no '='; expected NAME=RULE, such as"),
        ("--permission", "write=", "--permission.write is ''; expected one of allow, ask, deny"),
    ],
)
def test_what_no_token_can_be_made_of(guarded: Cli, option: str, value: str, error: str) -> None:
    done = guarded("token", "create", option, value)
    assert (done.returncode, done.stdout) == (2, "")
    assert error in done.stderr
    assert guarded.json("token", "list")["tokens"] == []


@pytest.mark.files
@pytest.mark.parametrize("damage", ["", "[]"])
def test_a_damaged_file_lets_only_the_owner_in(guarded: Cli, damage: str) -> None:
    token = made(guarded)
    [path] = guarded.home.rglob("tokens-*.json")
    path.write_text(damage, "utf-8")
    assert ask(guarded, "/tools", token)[0] == 503
    url, bearer = guarded.record()["url"], {"Authorization": f"Bearer {token}"}
    for method, path in (("POST", "/ui/link"), ("GET", "/ui/graph.json")):
        status, answer = fetch(url, path, method=method, headers=bearer)
        assert (status, answer["type"]) == (503, "TokenFileError"), "it may be a good token"
    assert guarded("list-tools").returncode == 0
    assert guarded("token", "list").returncode == 2


# Other machines


def test_other_machines_need_a_token(cli: Cli, scripted: Scripted) -> None:
    """http:others: without one the gateway does not even listen."""
    cli.env = FUZZY
    cli.configure(files=scripted(READ_FILE))
    for more in ([], ["--foreground"]):
        done = cli("gateway", "start", "--port", "0", "--host", "0.0.0.0", *more)  # noqa: S104 - is refused
        assert done.returncode in {1, 2}
        assert "on 0.0.0.0 other machines could use every tool; first make a token" in done.stderr
        assert cli.records == []


def test_other_machines_with_a_token(cli: Cli, scripted: Scripted) -> None:
    """http:others: by any name, but never without; nor when the last one is revoked."""
    cli.env = FUZZY
    cli.configure(files=scripted(READ_FILE))
    token = made(cli)
    url = cli.start_gateway("--host", "0.0.0.0")  # noqa: S104 - with a token, and for a moment
    port = int(url.rsplit(":", 1)[1])
    url = f"http://127.0.0.1:{port}"
    bearer = {"Authorization": f"Bearer {token}", "Host": "gateway.example"}
    assert fetch(url, "/tools", headers=bearer)[0] == 200
    assert fetch(url, "/tools")[0] == 401
    assert cli("search", "read_file").returncode == 0
    [row] = cli.json("token", "list")["tokens"]
    cli("token", "revoke", row["id"])
    assert fetch(url, "/tools")[0] == 401


@pytest.mark.requirement("upstream:instances")
def test_holders_have_instances_of_their_own(cli: Cli, scripted: Scripted) -> None:
    """upstream:instances: one does not read the page that another one is logged in to."""
    cli.env = FUZZY
    cli.configure(s={**scripted(tool("where"), tells=True), "share": False})
    cli.start_gateway()
    tokens = [made(cli, "--name", name) for name in ("one", "other")]

    def process(token: str, **more: str) -> int:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **more}
        url = cli.record()["url"]
        status, said = fetch(url, "/tools/s__where", method="POST", headers=headers, body=b"{}")
        assert status == 200, said
        return int(json.loads(said["content"][0]["text"])["pid"])

    one, other = map(process, tokens)
    assert one != other
    assert process(tokens[0]) == one
    named = {"Toolscript-Session": "mine"}
    assert process(tokens[0], **named) == process(tokens[0], **named) != one
