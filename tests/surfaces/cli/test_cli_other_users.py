"""What another user of this machine gets from a gateway that was started on demand."""

import json
import os
import shutil
import subprocess
from typing import Any

import pytest
from tests.postgres_server import as_unprivileged
from tests.stdio_sessions import said, session
from tests.support import FUZZY, Cli, Scripted, fetch, tool

from toolscript.surfaces.http.routes import every_endpoint
from toolscript.surfaces.server.authentication import HEALTH, PROBES

_PYTHON = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin")
_CLIENT = """
import http.client, json, sys
address, requests = json.load(sys.stdin)
for method, path, headers, body in requests:
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    print(json.dumps([response.status, response.read().decode(errors="replace")]))
    connection.close()
"""
_MCP = ("/mcp", "/mcp/search", "/mcp/two-phase", "/mcp/all", "/mcp/stream", "/mcp/all/stream")
_PAGE = ("/ui/", "/ui/search.json?q=where", "/ui/tools", "/ui/servers", "/ui/review", "/ui/access")


def as_other_user(url: str, requests: list[Any]) -> list[tuple[int, str]]:
    """The answers to another user's requests; skips where this user cannot become another."""
    if os.geteuid() != 0 or _PYTHON is None:
        pytest.skip("only root can become another user, who needs a python3 of the system's")
    done = subprocess.run(
        [_PYTHON, "-I", "-c", _CLIENT],
        input=json.dumps([url.partition("://")[2], requests]),
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
        **as_unprivileged(),
    )
    return [(status, text) for status, text in map(json.loads, done.stdout.splitlines())]


def requests_for_all(folder: str) -> list[Any]:
    """A request of each route, with what others would send in order to choose a folder."""
    headers = {"Toolscript-Project": folder, "Accept": "application/json, text/event-stream"}
    sent = {**headers, "Content-Type": "application/json"}
    routes = [
        (each.method, each.path.replace("{tool:path}", "s__where")) for each in every_endpoint()
    ]
    routes += [("POST", path) for path in (*_MCP, "/ui/link", "/ui/call", "/message")]
    routes += [("GET", path) for path in (*_PAGE, "/mcp")]
    listing = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    return [
        (method, path, *((sent, listing) if method == "POST" else (headers, None)))
        for method, path in routes
        if path not in {*PROBES, HEALTH}
    ]


@pytest.fixture
def here(cli: Cli, scripted: Scripted) -> Cli:
    cli.env = {**FUZZY, "TOOLSCRIPT_PORT": "0"}
    cli.configure(s={**scripted(tool("where"), tells=True), "cwd": "${PROJECT}"})
    return cli


def check_closed_to_others(cli: Cli) -> None:
    url = cli.record()["url"]
    asked = requests_for_all(str(cli.home))
    answers = as_other_user(url, asked)
    assert len(answers) == len(asked) > len(every_endpoint())
    let_in = [
        (method, path, status, text)
        for (method, path, *_), (status, text) in zip(asked, answers, strict=True)
        if status != 401
    ]
    assert not let_in
    assert as_other_user(url, [("GET", HEALTH, {}, None)]) == [(200, '{"status":"ready"}')]


@pytest.mark.requirement("http:others")
def test_a_bridge_opens_the_gateway_to_no_other_user(here: Cli) -> None:
    with session(here) as one:
        assert said(one.call("s:where"))["cwd"] == str(here.home)
        assert here("search", "where").returncode == 0
        check_closed_to_others(here)


@pytest.mark.requirement("http:others")
def test_the_page_opens_the_gateway_to_no_other_user(here: Cli) -> None:
    assert here("search", "where").returncode == 0
    assert here("gateway", "page", "--print").stdout.startswith("http://127.0.0.1:")
    check_closed_to_others(here)


@pytest.mark.requirement("upstream:instances")
def test_only_the_owner_chooses_the_folder(here: Cli) -> None:
    """Whoever else reaches an open gateway gets the folder that it was started in."""
    folder = here.home / "other"
    folder.mkdir()
    here.start_gateway()
    record, places = here.record(), list[str]()
    for holder in ({}, {"Authorization": f"Bearer {record['key']}"}):
        sent = {**holder, "Toolscript-Project": str(folder), "Content-Type": "application/json"}
        status, answer = fetch(
            record["url"], "/tools/s__where", method="POST", headers=sent, body=b"{}"
        )
        assert status == 200, answer
        places.append(said(answer)["cwd"])
    assert places == [str(here.home), str(folder)]
