"""``POST /tools/{id}``, knocked at over sockets: a gateway process with scripted servers."""

import http.client
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.support import FUZZY, Cli, Scripted, fetch, post, tool, until

RESULT: dict[str, Any] = {
    "content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}],
    "structuredContent": {"n": [1, None]},
    "isError": True,
    "_meta": {"x/y": 1},
}
NEEDS_A = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("calls")


@pytest.fixture(scope="module")
def url(home: Path) -> Generator[str]:
    """A gateway with one server; its calls and cancellations are written down."""
    cli, scripted = Cli(home, FUZZY), Scripted(home)
    server = scripted(
        *(tool(name) for name in ("echo", "fails", "refuses", "hang", "a/b c")),
        tool("needs", inputSchema=NEEDS_A),
        results={"fails": RESULT},
        errors={"refuses": {"code": -32000, "message": "not today"}},
        silent=["hang"],
        calls=str(home / "calls"),
        cancels=str(home / "cancels"),
    )
    cli.configure(s=server)
    with cli:
        yield cli.start_gateway()


@pytest.mark.requirement("http:others")
def test_a_call(url: str) -> None:
    """http:others: the arguments are the body."""
    status, answer = post(url, "/tools/s__echo", {"text": "ż"})
    assert status == 200
    assert json.loads(answer["content"][0]["text"])["arguments"] == {"text": "ż"}


def test_no_body_is_no_arguments(url: str) -> None:
    headers = {"Content-Type": "application/json"}
    status, answer = fetch(url, "/tools/s__echo", method="POST", headers=headers)
    assert status == 200
    assert json.loads(answer["content"][0]["text"])["arguments"] == {}


@pytest.mark.requirement("http:others")
def test_a_failure_is_the_tools_to_tell(url: str) -> None:
    """http:others: isError, structuredContent and metadata come back as they are."""
    assert post(url, "/tools/s__fails", {}) == (200, RESULT)


def test_a_name_with_everything(url: str) -> None:
    status, answer = post(url, "/tools/s__a%2Fb%20c", {})
    assert (status, json.loads(answer["content"][0]["text"])["name"]) == (200, "a/b c")


@pytest.mark.requirement("http:others")
@pytest.mark.parametrize(
    ("path", "sent", "status", "kind", "message"),
    [
        ("/tools/s__ecko", {}, 404, "UnknownNameError", "the nearest are: s__echo"),
        ("/tools/nothing", {}, 404, "UnknownNameError", "no tool is called 'nothing'"),
        ("/tools/s__needs", {}, 400, "ArgumentsError", "a is missing. It takes a (integer"),
        ("/tools/s__needs", {"a": 1.5}, 400, "ArgumentsError", "a is 1.5; expected integer"),
        ("/tools/s__echo", [1], 400, "InputError", "the body is a list; expected a JSON object"),
        ("/tools/s__echo", "x", 400, "InputError", "the body is a string"),
        ("/tools/s__refuses", {}, 502, "RefusedError", "s: not today"),
    ],
)
def test_what_cannot_be_called(  # noqa: PLR0913, PLR0917 - a row of the table each
    url: str, path: str, sent: Any, status: int, kind: str, message: str
) -> None:
    """http:others: the status, the kind and the advice."""
    code, answer = post(url, path, sent)
    assert (code, answer["type"]) == (status, kind)
    assert message in answer["error"]


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b"{'a': 1}", b"[" * 100_000, b"nope"])
def test_what_is_no_json(url: str, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    status, answer = fetch(url, "/tools/s__echo", method="POST", headers=headers, body=body)
    assert (status, answer["type"]) == (400, "InputError")
    assert len(answer["error"]) < 300


def test_a_body_that_is_too_long(url: str) -> None:
    headers = {"Content-Type": "application/json"}
    body = b'{"a": "' + b"x" * 5_000_000 + b'"}'
    try:
        status, answer = fetch(url, "/tools/s__echo", method="POST", headers=headers, body=body)
        assert (status, answer["type"]) == (400, "InputError")
    except OSError:
        pass  # it may hang up before it has read everything
    assert fetch(url, "/health")[0] == 200


def test_hanging_up_cancels_the_call(url: str, home: Path) -> None:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/tools/s__hang", b"{}", headers)
    until(lambda: '"hang"' in (home / "calls").read_text("utf-8"), "the call has arrived")
    connection.close()
    until((home / "cancels").exists, "the server is told that it is cancelled")


@pytest.mark.requirement("http:others")
def test_a_tool_is_not_called_by_looking(url: str) -> None:
    """http:others: 405, and what to use instead."""
    status, answer = fetch(url, "/tools/s__echo")
    assert status == 405
    assert "use POST" in answer["error"]
