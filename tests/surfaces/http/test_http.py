"""The HTTP surface, knocked at over sockets: a gateway process with two scripted servers."""

import gzip
import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.support import FUZZY, READ_FILE, SEND_MAIL, Cli, Scripted, fetch, tool, until

BAD_NAME = tool("evil\x1b[31m", "x")


@dataclass(frozen=True)
class Gateway:
    """A running gateway."""

    url: str

    def get(self, path: str, **parameters: object) -> Any:
        """The JSON of an answer that must be a success."""
        status, value = fetch(self.url, path, parameters)
        assert status == 200, value
        return value

    def refusal(self, path: str, **parameters: object) -> tuple[int, str]:
        """The status and message of an answer that must be an error in JSON."""
        status, value = fetch(self.url, path, parameters)
        assert set(value) == {"error", "type"}
        return status, value["error"]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Generator[Gateway]:
    """A gateway with the bundled model, a good server and one with a bad tool."""
    home = tmp_path_factory.mktemp("gateway")
    cli, scripted = Cli(home), Scripted(home)
    mail = scripted(SEND_MAIL, BAD_NAME, env={"TOKEN": "a-long-secret"})
    cli.configure(files=scripted(READ_FILE, tool("move_file", "Move a file")), mail=mail)
    url = cli.start_gateway()
    with cli:
        yield Gateway(url)


# /search


@pytest.mark.requirement("http:search")
def test_a_search(gateway: Gateway) -> None:
    """http:search: the shape of the seed's answer."""
    answer = gateway.get("/search", q="read what is in a file")
    assert {"query", "results", "totalResults", "threshold"} <= set(answer)
    assert answer["query"] == "read what is in a file"
    assert answer["threshold"] == 0.35
    assert answer["totalResults"] == len(answer["results"]) > 0
    first = answer["results"][0]
    assert {"toolId", "serverName", "toolName", "confidence", "reason", "description"} <= set(first)
    assert first["toolId"] == "files__read_file"
    assert (first["serverName"], first["toolName"]) == ("files", "read_file")
    assert first["description"] == READ_FILE["description"]
    assert 0.35 <= first["confidence"] <= 1
    assert first["reason"]
    confidences = [hit["confidence"] for hit in answer["results"]]
    assert confidences == sorted(confidences, reverse=True)


@pytest.mark.requirement("http:search")
def test_limit_and_threshold(gateway: Gateway) -> None:
    every = gateway.get("/search", q="file", limit=10, threshold=0)
    assert (len(every["results"]), every["limit"], every["threshold"]) == (3, 10, 0)
    assert len(gateway.get("/search", q="file", limit=1, threshold=0)["results"]) == 1
    confidence = every["results"][1]["confidence"]
    kept = gateway.get("/search", q="file", threshold=confidence)["results"]
    assert [hit["toolId"] for hit in kept] == [hit["toolId"] for hit in every["results"][:2]]


@pytest.mark.requirement("search:filter")
def test_only_some_servers(gateway: Gateway) -> None:
    answer = gateway.get("/search", q="send_mail", server="files", threshold=0)
    assert {hit["serverName"] for hit in answer["results"]} == {"files"}
    assert gateway.refusal("/search", q="x", server="nobody")[0] == 404


@pytest.mark.requirement("search:none")
def test_nothing_found(gateway: Gateway) -> None:
    """search:none: the best that fell below the threshold is named."""
    answer = gateway.get("/search", q="zxqv blorp", threshold=0.99)
    assert (answer["results"], answer["totalResults"]) == ([], 0)
    assert answer["below"] is None or answer["below"]["confidence"] < 0.99


@pytest.mark.requirement("search:limits", "http:search")
@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, "the parameter q is missing"),
        ({"q": ""}, "the query is empty"),
        ({"q": " \t\n"}, "the query is empty"),
        ({"q": "x" * 8193}, "has 8193 characters; at most 8192 are searched"),
        ({"q": "x", "limit": 0}, "limit is 0; it must be from 1 to 100"),
        ({"q": "x", "limit": 10000}, "limit is 10000; it must be from 1 to 100"),
        ({"q": "x", "limit": -1}, "limit is -1; it must be from 1 to 100"),
        ({"q": "x", "limit": "abc"}, "limit is 'abc'; expected a whole number"),
        ({"q": "x", "limit": "3.5"}, "limit is '3.5'; expected a whole number"),
        ({"q": "x", "limit": ""}, "limit is ''; expected a whole number"),
        ({"q": "x", "limit": "9" * 5000}, "limit is "),
        ({"q": "x", "threshold": 2}, "threshold is 2.0; it must be from 0 to 1"),
        ({"q": "x", "threshold": -1}, "threshold is -1.0; it must be from 0 to 1"),
        ({"q": "x", "threshold": "nan"}, "threshold is nan; it must be from 0 to 1"),
        ({"q": "x", "threshold": "inf"}, "threshold is inf; it must be from 0 to 1"),
        ({"q": "x", "threshold": "high"}, "threshold is 'high'; expected a number"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_searched(
    gateway: Gateway, parameters: dict[str, object], expected: str
) -> None:
    """http:search, search:limits: 400, with the value and the range."""
    status, message = gateway.refusal("/search", **parameters)
    assert status == 400
    assert expected in message
    assert len(message) < 500


@pytest.mark.requirement("http:search")
@pytest.mark.parametrize(
    "query",
    ["\x1b[31m", "\ud7ff\U0001f600", "{}", "' OR 1=1 --", "x" * 8192, "a " * 4000, "é" * 50],
    ids=lambda value: ascii(value)[:20],
)
def test_odd_queries(gateway: Gateway, query: str) -> None:
    """http:search: whatever it is, it is echoed and answered."""
    assert gateway.get("/search", q=query)["query"] == query


@pytest.mark.requirement("http:search")
@pytest.mark.parametrize(
    "target", ["/search?q=%ff%fe", "/search?q=%", "/search?q=a&q=b", "//search?q=a"]
)
def test_odd_targets(gateway: Gateway, target: str) -> None:
    assert fetch(gateway.url, target)[0] in {200, 404}


# The other paths


@pytest.mark.requirement("http:others")
def test_health(gateway: Gateway) -> None:
    answer = gateway.get("/health")
    assert (answer["status"], answer["tools"], answer["toolsWaiting"]) == ("ready", 3, 0)
    assert answer["waitingFor"] == []
    assert isinstance(answer["pid"], int)


@pytest.mark.requirement("http:others")
def test_servers(gateway: Gateway) -> None:
    """http:others: with what was left out, and no secret."""
    answer = gateway.get("/servers")
    files, mail = answer["servers"]
    assert (files["name"], files["state"], files["tools"]) == ("files", "ready", 2)
    assert (mail["name"], mail["tools"], mail["version"]) == ("mail", 1, "scripted 1")
    assert mail["rejected"] == ["evil[31m: the name is empty or cannot be shown"]
    assert "a-long-secret" not in json.dumps(answer)


@pytest.mark.requirement("http:others")
def test_tools(gateway: Gateway) -> None:
    answer = gateway.get("/tools")
    assert answer["totalTools"] == 3
    assert [each["toolId"] for each in answer["tools"]] == [
        "files__move_file",
        "files__read_file",
        "mail__send_mail",
    ]
    assert answer["tools"][1]["inputSchema"] == {"type": "object"}
    assert gateway.get("/tools", server="mail")["totalTools"] == 1
    assert gateway.refusal("/tools", server="male")[0] == 404


@pytest.mark.requirement("search:stats")
def test_statistics(gateway: Gateway) -> None:
    gateway.get("/search", q="read a file")
    answer = gateway.get("/search/stats")
    assert (answer["toolsIndexed"], answer["embeddingsCached"], answer["device"]) == (3, 3, "cpu")
    assert answer["signals"] == ["semantic", "fuzzy"]
    assert {"model", "cacheHitRate", "queryCacheHitRate"} <= set(answer)


@pytest.mark.requirement("http:others")
def test_a_path_that_is_not_there(gateway: Gateway) -> None:
    """http:others: 404 in JSON, with the paths that are."""
    status, message = gateway.refusal("/nowhere")
    assert status == 404
    assert "/search" in message


@pytest.mark.requirement("http:others")
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_a_method_that_is_not_answered(gateway: Gateway, method: str) -> None:
    """http:others: 405 in JSON."""
    status, value = fetch(gateway.url, "/search", {"q": "x"}, method=method)
    assert status == 405
    assert f"{method} is not answered at /search" in value["error"]


@pytest.mark.requirement("http:others")
def test_bodies_and_bounds_that_cannot_be_read_are_told_plainly(gateway: Gateway) -> None:
    """http:others: a compressed body, a call without a name, a bound that only a program has."""
    sent = {"Content-Type": "application/json"}
    packed = gzip.compress(b"{}")
    status, value = fetch(gateway.url, "/message", method="POST", headers=sent, body=packed)
    assert (status, value["error"]) == (
        400,
        "the body is not JSON: it is compressed; send it as it is",
    )
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}'
    _, value = fetch(gateway.url, "/message", method="POST", headers=sent, body=body)
    assert value["error"]["message"] == "name is None; send a text"
    assert gateway.refusal("/activity", before=0) == (400, "before is 0; it must be at least 1")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{gateway.url}/search?q=x", b"")  # noqa: S310 - our own
    refused.value.close()
    assert set(refused.value.headers["allow"].split(", ")) == {"GET", "HEAD"}


@pytest.mark.requirement("http:others")
@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "evil.example:7337", ""]
)
def test_a_foreign_host_is_refused(gateway: Gateway, host: str) -> None:
    """http:others: no web page reaches the gateway by way of a name of its own."""
    answer = fetch(gateway.url, "/health", headers={"Host": host})
    assert answer == (400, "Invalid host header")


@pytest.mark.requirement("http:others")
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "localhost:1234", "[::1]", "[::1]:99"])
def test_this_machine_is_not_refused(gateway: Gateway, host: str) -> None:
    assert fetch(gateway.url, "/health", headers={"Host": host})[0] == 200


@pytest.mark.requirement("catalogue:progressive", "http:search")
def test_not_ready(cli: Cli, scripted: Scripted) -> None:
    """http:search, catalogue:progressive: 503 with the reason, then answers as servers connect."""
    release = scripted.directory / "release"
    waits = f'while [ ! -e \'{release}\' ]; do sleep 0.02; done; exec "$0" "$@"'
    late = scripted(READ_FILE)
    late = {"command": "/bin/sh", "args": ["-c", waits, late["command"], *late["args"]]}
    cli.configure(late=late, never=scripted(hang=True))
    command = cli.command("gateway", "start", "--open", "--foreground", "--port", "0")
    with subprocess.Popen(command, env=cli.environment(FUZZY), cwd=cli.home) as process:
        try:
            until(lambda: cli.records, "the gateway has left its record")
            url = cli.record()["url"]
            until(lambda: answers(url), "the gateway answers")
            status, value = fetch(url, "/search", {"q": "read_file"})
            assert (status, value["type"]) == (503, "NotReadyError")
            assert value["error"] == (
                "no tools yet: waiting for late, never; try again in a moment"
            )
            release.touch()
            until(lambda: fetch(url, "/search", {"q": "read_file"})[0] == 200, "late is found")
            assert fetch(url, "/health")[1]["waitingFor"] == ["never"]
        finally:
            process.terminate()


def answers(url: str) -> bool:
    try:
        return fetch(url, "/health")[0] == 200
    except OSError:
        return False


@pytest.mark.requirement("http:others")
def test_listens_on_this_machine_only(gateway: Gateway) -> None:
    assert urlsplit(gateway.url).hostname == "127.0.0.1"
