"""L14: who called what is logged, and so are callers without a valid token."""

import asyncio
import json
import logging
from typing import Any

import anyio
import pytest

from tests.support import FUZZY, READ_FILE, SEND_MAIL, Cli, Scripted, fetch
from toolscript.surfaces.server.audit_log import Refusals

ARGUMENT = "an argument that is nobody's business"
ONE, ALL = "files__read_file", "mail__send_mail"


class Gateway:
    """A gateway that logs as JSON, with two tokens, of which one is for one server."""

    def __init__(self, cli: Cli, scripted: Scripted, level: str = "info") -> None:
        cli.configure(files=scripted(READ_FILE), mail=scripted(SEND_MAIL))
        cli.env = {**FUZZY, "TOOLSCRIPT_LOG_LEVEL": level, "TOOLSCRIPT_LOG_FORMAT": "json"}
        self.url = cli.start_gateway()
        self.ids: dict[str, str] = {}
        self.tokens: dict[str, str] = {}
        for name, grant in (("one", ["--server", "files"]), ("all", [])):
            made = cli.json("token", "create", *grant)
            self.ids[name], self.tokens[name] = made["id"], made["token"]
        self.home = cli.home

    def post(self, token: str, path: str, value: Any) -> int:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        body = json.dumps(value).encode()
        return fetch(self.url, path, method="POST", headers=headers, body=body)[0]

    def log(self) -> str:
        [path] = (self.home / ".toolscript" / "logs").glob("gateway-*.log")
        return path.read_text("utf-8")

    def audit(self) -> list[dict[str, Any]]:
        """The lines of the audit log."""
        lines = [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]
        return [line for line in lines if line["logger"] == "toolscript.audit"]

    def calls(self) -> list[tuple[str, str, str]]:
        return [(a["who"], a["tool"], a["outcome"]) for a in self.audit() if "tool" in a]


@pytest.fixture
def gateway(cli: Cli, scripted: Scripted) -> Gateway:
    return Gateway(cli, scripted)


def test_l14_each_call_leaves_a_line_with_who_and_what(gateway: Gateway, cli: Cli) -> None:
    """Through HTTP and messages, by tokens and the owner; refused ones, too."""
    one, everything = gateway.tokens["one"], gateway.tokens["all"]
    assert gateway.post(one, f"/tools/{ONE}", {"path": ARGUMENT}) == 200
    assert gateway.post(one, f"/tools/{ALL}", {}) == 404
    params = {
        "name": "call_destructive_tool",
        "arguments": {"tool": ALL, "arguments": {"text": ARGUMENT}},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    assert gateway.post(everything, "/message", message) == 200
    assert cli("call", ONE, "{}").returncode == 0
    assert gateway.calls() == [
        (gateway.ids["one"], ONE, "ok"),
        (gateway.ids["one"], ALL, "UnknownNameError"),
        (gateway.ids["all"], ALL, "ok"),
        ("owner", ONE, "ok"),
    ]
    assert ARGUMENT not in gateway.log()


def test_l14_wrong_tokens_are_told_of_once_a_minute(cli: Cli, scripted: Scripted) -> None:
    """Also where any caller gets an answer; one who shows none at /health only looks."""
    gateway = Gateway(cli, scripted, level="warning")
    assert fetch(gateway.url, "/health")[0] == 200
    for number in range(50):
        assert gateway.post(f"ts_{number}", f"/tools/{ONE}", {}) == 401
        bearer = {"Authorization": f"Bearer ts_{number}"}
        assert fetch(gateway.url, "/health", headers=bearer)[0] == 200
    [line] = gateway.audit()
    assert line["level"] == "warning"
    assert line["message"] == ("refused for lack of a valid token: 1, the last from 127.0.0.1")


def test_l14_a_period_ends_with_the_number_of_the_others(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "toolscript.audit")

    async def act() -> None:
        refusals = Refusals(period_s=0.2)
        for _ in range(1000):
            refusals.add("192.0.2.7")
        with anyio.fail_after(60):
            while len(caplog.messages) < 2:  # noqa: ASYNC110 - a log has no event
                await asyncio.sleep(0.01)

    asyncio.run(act())
    assert [message.split(": ")[1].split(",")[0] for message in caplog.messages] == ["1", "999"]
