"""The bridge: `toolscript mcp` as a client of one gateway, over real processes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

import pytest
from tests.gateway.upstream.test_request_router import lines
from tests.support import FUZZY, PATIENCE_S, Cli, Scripted, alive, fetch, processes, tool, until

MAX_RESIDENT_MIB = 32
"""30 MiB on a quiet machine; what the allocator keeps varies."""


@dataclass
class Session:
    """A client that speaks the protocol of 2025-06-18 to a process."""

    process: "subprocess.Popen[bytes]"
    received: "Queue[dict[str, Any] | None]" = field(default_factory=Queue[dict[str, Any] | None])
    others: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Notifications and requests that came meanwhile."""
    number: int = 0

    def __post_init__(self) -> None:
        Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.received.put(json.loads(line))
        self.received.put(None)

    def send(self, **message: Any) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def begin(self, method: str, **params: Any) -> int:
        self.number += 1
        self.send(id=self.number, method=method, params=params)
        return self.number

    def until(self, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next message that fits; the others are kept."""
        for message in list(self.others):
            if fits(message):
                self.others.remove(message)
                return message
        while True:
            try:
                message = self.received.get(timeout=PATIENCE_S)
            except Empty:
                raise AssertionError(f"nothing came; there were {self.others}") from None
            assert message is not None, "the process has ended"
            if fits(message):
                return message
            self.others.append(message)

    def answer(self, number: int) -> dict[str, Any]:
        return self.until(lambda each: each.get("id") == number and "method" not in each)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        return self.answer(self.begin(method, **params))["result"]

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        return self.ask(
            "tools/call", name="call_tool", arguments={"tool": name, "arguments": arguments}
        )

    def open(self, **capabilities: Any) -> None:
        self.ask(
            "initialize",
            protocolVersion="2025-06-18",
            capabilities=capabilities,
            clientInfo={"name": "test", "version": "1"},
        )
        self.send(method="notifications/initialized")


def called(name: str) -> dict[str, Any]:
    """The parameters that call a server's tool without arguments."""
    return {"name": "call_tool", "arguments": {"tool": name}}


def said(result: dict[str, Any]) -> Any:
    return json.loads(result["content"][0]["text"])


@contextmanager
def session(
    cli: Cli, *arguments: str, cwd: Path | None = None, **capabilities: Any
) -> Generator[Session]:
    with subprocess.Popen(
        cli.command("mcp", *arguments),
        env=cli.environment({"TOOLSCRIPT_PORT": "0"}),
        cwd=cwd or cli.home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            made = Session(process)
            made.open(**capabilities)
            yield made
        finally:
            assert process.stdin
            process.stdin.close()
            process.wait(PATIENCE_S)


def gateway_pid(cli: Cli) -> int:
    return int(cli.record()["pid"])


@pytest.fixture
def here(cli: Cli) -> Cli:
    cli.env = FUZZY
    return cli


@pytest.mark.requirement("bridge:shared")
def test_sessions_share_one_gateway_and_its_servers(here: Cli, scripted: Scripted) -> None:
    starts = here.home / "starts"
    here.configure(s=scripted(tool("where"), starts=str(starts), tells=True))
    with ExitStack() as stack:
        sessions = [stack.enter_context(session(here)) for _ in range(5)]
        pids = {said(each.call("s:where"))["pid"] for each in sessions}
        assert len(pids) == len(lines(starts)) == 1
        assert alive(gateway_pid(here))
    assert alive(gateway_pid(here)), "it survives its clients"


@pytest.mark.requirement("bridge:shared")
def test_sessions_that_begin_at_once_start_one_gateway(here: Cli, scripted: Scripted) -> None:
    here.configure(s=scripted(tool("echo")))
    started = [
        subprocess.Popen(
            here.command("mcp"),
            env=here.environment({"TOOLSCRIPT_PORT": "0"}),
            cwd=here.home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(4)
    ]
    for process in started:
        with process:
            each = Session(process)
            each.open()
            assert each.ask("tools/list")["tools"][0]["name"] == "search_tools"
            assert process.stdin
            process.stdin.close()
            process.wait(PATIENCE_S)
    assert len(here.records) == 1


@pytest.mark.requirement("bridge:light")
def test_the_bridge_is_light(here: Cli, scripted: Scripted) -> None:
    here.configure(s=scripted(tool("echo")))
    here.start_gateway()
    with session(here) as one:
        one.call("s:echo")
        status = Path(f"/proc/{one.process.pid}/status")
        if status.exists():
            [resident] = [row for row in status.read_text().splitlines() if "VmRSS" in row]
            assert int(resident.split()[1]) < MAX_RESIDENT_MIB * 1024
    code = "import sys, toolscript.surfaces.cli.mcp_command; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "onnxruntime", "mcp", "mcp_types", "pydantic", "starlette", "anyio"}
    assert not heavy & set(done.stdout.split())


@pytest.mark.requirement("bridge:faithful")
def test_progress_questions_and_cancellation_pass(here: Cli, scripted: Scripted) -> None:
    cancels = here.home / "cancels"
    here.configure(
        s=scripted(tool("work"), progress=2),
        asks=scripted(tool("sign"), elicits="Your name?"),
        h=scripted(tool("hang"), silent=["hang"], cancels=str(cancels)),
    )
    with session(here, elicitation={}) as one:
        asked = called("s:work")
        number = one.begin("tools/call", **asked, _meta={"progressToken": "p"})
        assert "result" in one.answer(number)
        heard = [each for each in one.others if each.get("method") == "notifications/progress"]
        assert [each["params"]["message"] for each in heard][-2:] == ["step 1", "step 2"]

        asked = called("asks:sign")
        number = one.begin("tools/call", **asked)
        question = one.until(lambda each: each.get("method") == "elicitation/create")
        reply = {"action": "accept", "content": {"name": "Ann"}}
        one.send(id=question["id"], result=reply)
        assert said(one.answer(number)["result"])["content"] == {"name": "Ann"}

        asked = called("h:hang")
        number = one.begin("tools/call", **asked)
        until(lambda: one.process.poll() is None, "it is under way")
        until(lambda: processes(f"{scripted.directory}"), "the server runs")
        one.send(method="notifications/cancelled", params={"requestId": number})
        until(cancels.exists, "the server hears of it")
        assert one.ask("ping") == {}


@pytest.mark.requirement("bridge:faithful")
def test_a_large_message_passes(here: Cli, scripted: Scripted) -> None:
    here.configure(s=scripted(tool("echo")))
    with session(here) as one:
        text = "x" * 2_000_000
        assert said(one.call("s:echo", text=text))["arguments"]["text"] == text


@pytest.mark.requirement("bridge:survives")
def test_a_session_survives_its_gateway(here: Cli, scripted: Scripted) -> None:
    """Killed again and again: nothing is called twice, and what is unknown is said."""
    calls = here.home / "calls"
    here.configure(
        s=scripted(tool("count"), calls=str(calls)),
        h=scripted(tool("hang"), silent=["hang"], calls=str(here.home / "hangs")),
    )
    with ExitStack() as stack:
        sessions = [stack.enter_context(session(here)) for _ in range(3)]
        for turn in range(3):
            for number, each in enumerate(sessions):
                assert said(each.call("s:count", at=f"{turn}-{number}"))["arguments"]
            hang = called("h:hang")
            lost = sessions[0].begin("tools/call", **hang)
            until(lambda n=turn: len(lines(here.home / "hangs")) == n + 1, "it is under way")
            pid = gateway_pid(here)
            os.kill(pid, signal.SIGKILL)
            until(lambda pid=pid: not alive(pid), "it is gone")
            error = sessions[0].answer(lost)["error"]
            assert "whether it was done is unknown" in error["message"]
            assert sessions[1].ask("tools/list")["tools"]
        for number, each in enumerate(sessions):
            each.call("s:count", at=f"last-{number}")
    made = [json.loads(row)["arguments"]["at"] for row in lines(calls)]
    assert sorted(made) == sorted(set(made)), "each call was made once"
    assert len(made) == 12
    assert len(lines(here.home / "hangs")) == 3


@pytest.mark.requirement("bridge:survives")
def test_a_question_of_a_gateway_that_is_gone_is_withdrawn(here: Cli, scripted: Scripted) -> None:
    here.configure(s=scripted(tool("sign"), elicits="Your name?"))
    with session(here, elicitation={}) as one:
        asked = called("s:sign")
        number = one.begin("tools/call", **asked)
        first = one.until(lambda each: each.get("method") == "elicitation/create")
        os.kill(gateway_pid(here), signal.SIGKILL)
        gone = one.until(lambda each: each.get("method") == "notifications/cancelled")
        assert gone["params"]["requestId"] == first["id"]
        assert "unknown" in one.answer(number)["error"]["message"]
        number = one.begin("tools/call", **asked)
        second = one.until(lambda each: each.get("method") == "elicitation/create")
        assert second["id"] != first["id"]
        one.send(id=first["id"], result={"action": "accept", "content": {"name": "late"}})
        one.send(id=second["id"], result={"action": "accept", "content": {"name": "right"}})
        assert said(one.answer(number)["result"])["content"] == {"name": "right"}


@pytest.mark.requirement("bridge:idle")
def test_a_gateway_without_clients_ends(here: Cli, scripted: Scripted) -> None:
    here.env = {**FUZZY, "TOOLSCRIPT_GATEWAY_IDLE": "0.5"}
    here.configure(s=scripted(tool("echo")))
    with session(here) as one:
        one.call("s:echo")
        pid = gateway_pid(here)
    until(lambda: not alive(pid), "it has ended by itself")
    assert not processes(f"{scripted.directory}")
    with session(here) as one:
        assert said(one.call("s:echo", a=1))["arguments"] == {"a": 1}
        assert gateway_pid(here) != pid


@pytest.mark.requirement("upstream:instances")
def test_each_project_has_its_own_server_behind_one_gateway(here: Cli, scripted: Scripted) -> None:
    projects = [here.home / name for name in ("one", "other")]
    for folder in projects:
        folder.mkdir()
    entry = scripted(tool("where"), tells=True)
    here.configure(s={**entry, "cwd": "${PROJECT}"})
    with session(here, cwd=projects[0]) as one, session(here, cwd=projects[1]) as other:
        places = [said(each.call("s:where"))["cwd"] for each in (one, other, one)]
    assert places == [str(projects[0]), str(projects[1]), str(projects[0])]


@pytest.mark.requirement("upstream:instances")
def test_a_client_that_has_roots_names_its_project(here: Cli, scripted: Scripted) -> None:
    folder = here.home / "root"
    folder.mkdir()
    here.configure(s={**scripted(tool("where"), tells=True), "cwd": "${PROJECT}"})
    with session(here, roots={}) as one:
        asked = called("s:where")
        number = one.begin("tools/call", **asked)
        question = one.until(lambda each: each.get("method") == "roots/list")
        one.send(id=question["id"], result={"roots": [{"uri": folder.as_uri()}]})
        assert said(one.answer(number)["result"])["cwd"] == str(folder)


def test_a_foreign_request_opens_no_stream(here: Cli, scripted: Scripted) -> None:
    """A page in a browser cannot send this content type without asking first."""
    here.configure(s=scripted(tool("echo")))
    url = here.start_gateway()
    status, answer = fetch(
        url, "/mcp/stream", method="POST", headers={"Content-Type": "text/plain"}, body=b"{}\n"
    )
    assert (status, "application/x-ndjson" in answer["error"]) == (400, True)
