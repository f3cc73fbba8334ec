"""Requests have ids, lines in the log, and time to end: http:others."""

import json
from typing import Any

import pytest
from tests.support import FUZZY, READ_FILE, Cli, Scripted, fetch, until

QUIET = {"TOOLSCRIPT_LOG_LEVEL": "info", "TOOLSCRIPT_LOG_FORMAT": "json"}


@pytest.fixture
def logging(cli: Cli, scripted: Scripted) -> Cli:
    cli.env = FUZZY | QUIET
    cli.configure(files=scripted(READ_FILE))
    cli.start_gateway()
    return cli


def lines(cli: Cli) -> list[dict[str, Any]]:
    [log] = (cli.home / ".toolscript" / "logs").glob("*.log")
    return [json.loads(line) for line in log.read_text("utf-8").splitlines()]


def test_a_request_has_an_id_and_a_line_without_its_secrets(logging: Cli) -> None:
    """http:others: its own id where it has one; neither query nor headers are logged."""
    url = logging.record()["url"]
    given = {"X-Request-Id": "abc-1", "Authorization": "Bearer hunter2-horse"}
    fetch(url, "/search", {"q": "hunter2-horse"}, headers=given)
    fetch(url, "/nowhere", headers={"X-Request-Id": "no id\\u0007"})
    until(lambda: any(line.get("path") == "/nowhere" for line in lines(logging)), "it is logged")
    found = lines(logging)
    [search] = [line for line in found if line.get("request") == "abc-1"]
    assert (search["method"], search["path"], search["status"]) == ("GET", "/search", 200)
    assert search["ms"] > 0
    assert search["level"] == "info"
    [nowhere] = [line for line in found if line.get("path") == "/nowhere"]
    assert nowhere["status"] == 404
    assert len(nowhere["request"]) == 16
    assert "hunter2" not in json.dumps(found)


@pytest.mark.requirement("http:oauth")
@pytest.mark.parametrize(
    "address",
    [
        *("http://tools.example.com", "https://", "https://tools.example.com/mcp", "https://a b"),
        *("https://user@tools.example.com", "https://tools.example.com?x", "https://a.b:x"),
        *("https://tools.example.com#x", "http://10.0.0.1", "https://tools.example.com:999999"),
    ],
)
def test_a_public_address_is_a_host_over_https(address: str, cli: Cli) -> None:
    cli.configure()
    env = {"TOOLSCRIPT_PUBLIC_URL": address}
    done = cli("gateway", "start", "--port", "0", "--oauth", env=env)
    assert done.returncode == 2, done.stdout
    assert "TOOLSCRIPT_PUBLIC_URL is not" in done.stderr


@pytest.mark.requirement("http:oauth")
def test_clients_of_other_machines_need_a_public_address(cli: Cli) -> None:
    cli.configure()
    done = cli("gateway", "start", "--port", "0", "--oauth", "--host", "0.0.0.0")  # noqa: S104
    assert done.returncode == 2, done.stdout
    assert "--oauth needs TOOLSCRIPT_PUBLIC_URL" in done.stderr
