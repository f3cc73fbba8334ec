"""Requests that no client in its right mind sends: rows A4, L1 and M14."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.support import FUZZY, READ_FILE, Cli, Scripted, fetch, post

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("requests")


@pytest.fixture(scope="module")
def url(home: Path) -> Generator[str]:
    """A gateway of one server, without a token."""
    cli = Cli(home, FUZZY)
    cli.configure(files=Scripted(home)(READ_FILE, calls=str(home / "calls")))
    with cli:
        yield cli.start_gateway()


def rpc(url: str, method: str, params: Any) -> dict[str, Any]:
    status, answer = post(url, "/message", {"method": method, "params": params, "id": 1})
    assert status == 200
    return answer


# A4, L1


@pytest.mark.parametrize("arguments", ["x", [], ["x"], None, 1, 0, False, ""])
@pytest.mark.parametrize(
    "name", ["search_tools", "describe_tools", "call_destructive_tool", "files:read_file"]
)
def test_a4_arguments_that_are_no_object_are_refused(url: str, name: str, arguments: Any) -> None:
    answer = rpc(url, "tools/call", {"name": name, "arguments": arguments})
    assert answer["error"]["code"] == -32602
    assert "send a JSON object" in answer["error"]["message"]


def test_l1_arguments_of_a_prompt_are_an_object_too(url: str) -> None:
    answer = rpc(url, "prompts/get", {"name": "files__p", "arguments": ["x"]})
    assert answer["error"]["code"] == -32602


# M14

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
CALL: dict[str, Any] = {
    "method": "tools/call",
    "params": {"name": "files:read_file", "arguments": {}},
}
BROWSER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)"}
POSTS = {
    "/message": json.dumps(CALL).encode(),
    "/tools/files__read_file": b"{}",
    "/skills/update": b"",
    "/graph/clear": b"",
    "/graph/import": b"{}",
}


@pytest.mark.parametrize("path", ["/health", "/message"])
@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost:3000",
        "http://evil.example",
        "https://127.0.0.1.evil.example",
        "http://[",
        "",
        "http://127.0.0.1",
        "x://localhost",
        "tauri://localhost",
        "https://{host}",
        "x://{host}",
        "{host}",
        "null",
    ],
)
def test_m14_only_the_gateways_own_origin_is_accepted(url: str, origin: str, path: str) -> None:
    """Scheme, host and port; another program of this machine is another origin."""
    origin = origin.format(host=url.partition("://")[2])
    method, body = ("POST", POSTS[path]) if path in POSTS else ("GET", None)
    headers = {**JSON, "Origin": origin}
    assert fetch(url, path, method=method, headers=headers, body=body)[0] == 403
    headers = {**JSON, "Origin": url}
    assert fetch(url, path, method=method, headers=headers, body=body)[0] == 200


@pytest.mark.parametrize(("site", "status"), [("cross-site", 403), ("same-site", 403), ("x", 403)])
def test_m14_what_a_browser_calls_another_site_is_refused(url: str, site: str, status: int) -> None:
    for path, body in POSTS.items():
        headers = {**JSON, "Sec-Fetch-Site": site}
        assert fetch(url, path, method="POST", headers=headers, body=body)[0] == status
    assert fetch(url, "/health", headers={"Sec-Fetch-Site": site})[0] == status
    for own in ("same-origin", "none"):
        assert fetch(url, "/health", headers={"Sec-Fetch-Site": own})[0] == 200


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("kind", [FORM, {"Content-Type": "text/plain"}, {}])
def test_m14_a_form_does_nothing(url: str, home: Path, path: str, kind: dict[str, str]) -> None:
    """With a body or without: what a page may send unasked is of no kind that is accepted."""
    headers = {**kind, **BROWSER}
    status, answer = fetch(url, path, method="POST", headers=headers, body=POSTS[path])
    assert (status, answer["type"]) == (400, "InputError")


def test_m14_a_program_may_send_a_message_as_curl_does(url: str) -> None:
    """mcp:search_tools: the seed's own request says that it is a form."""
    headers = {**FORM, "User-Agent": "curl/8.5.0"}
    assert fetch(url, "/message", method="POST", headers=headers, body=POSTS["/message"])[0] == 200
