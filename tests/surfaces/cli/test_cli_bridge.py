"""The bridge: `toolscript mcp` as a client of one gateway, over real processes."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from tests import launcher
from tests.gateway.upstream.test_request_router import lines
from tests.stdio_sessions import VERSION, Session, called, said, session
from tests.support import (
    FUZZY,
    HELPERS,
    PATIENCE_S,
    WRITES,
    Cli,
    Scripted,
    alive,
    create_token,
    fetch,
    processes,
    tool,
    until,
)

from toolscript.config.settings import load_settings
from toolscript.surfaces.cli.bridge import Bridge, open_stream
from toolscript.surfaces.cli.gateway_client import RemoteClient
from toolscript.surfaces.cli.handshake_cache import HandshakeCache
from toolscript.surfaces.cli.http_exchange import Exchange
from toolscript.surfaces.cli.mcp_command import answer_first

CLIENT = {"name": "test", "version": "1"}
ODD: list[dict[str, Any]] = [
    {"method": "ping", "id": ["x"]},
    {"method": "ping", "id": {"x": 1}},
    {"result": {}, "id": [1]},
    {"method": "notifications/cancelled", "params": {"requestId": ["x"]}},
    {"method": "notifications/cancelled", "params": {"requestId": {}}},
    {"method": ["ping"], "id": 7, "params": 5},
    {"method": "ping", "id": None},
]
MAX_RESIDENT_MIB = 32
"""30 MiB on a quiet machine; what the allocator keeps varies."""


def gateway_pid(cli: Cli) -> int:
    return int(cli.record()["pid"])


def metrics(cli: Cli) -> str:
    record = cli.record()
    return fetch(record["url"], "/metrics", headers={"Authorization": f"Bearer {record['key']}"})[1]


@pytest.fixture
def here(cli: Cli) -> Cli:
    cli.env = FUZZY
    return cli


@pytest.mark.requirement("bridge:shared")
@pytest.mark.both_storages
def test_sessions_share_one_gateway_and_its_servers(here: Cli, scripted: Scripted) -> None:
    starts = here.home / "starts"
    here.configure(s=scripted(tool("where"), starts=str(starts), tells=True))
    with ExitStack() as stack:
        sessions = [stack.enter_context(session(here)) for _ in range(5)]
        pids = {said(each.call("s:where"))["pid"] for each in sessions}
        assert len(pids) == len(lines(starts)) == 1
        assert alive(gateway_pid(here))
    assert alive(gateway_pid(here)), "it survives its clients"


def begun(cli: Cli) -> "subprocess.Popen[bytes]":
    """A bridge in an interpreter of its own."""
    return subprocess.Popen(
        cli.command("mcp"),
        env=cli.environment({"TOOLSCRIPT_PORT": "0"}),
        cwd=cli.home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


@pytest.mark.requirement("bridge:shared")
def test_sessions_that_begin_at_once_start_one_gateway(here: Cli, scripted: Scripted) -> None:
    here.configure(s=scripted(tool("echo")))
    for process in [begun(here) for _ in range(4)]:
        with process:
            each = Session(process)
            each.open()
            assert each.ask("tools/list")["tools"][0]["name"] == "search_tools"
            assert process.stdin
            process.stdin.close()
            process.wait(PATIENCE_S)
    assert len(here.records) == 1


@pytest.mark.requirement("bridge:survives")
def test_a_client_that_ends_all_descendants_ends_its_bridge_alone(
    here: Cli, scripted: Scripted
) -> None:
    """As opencode does; another session's call goes on."""
    here.configure(s=scripted(tool("sign") | WRITES, elicits="Your name?"))
    with ExitStack() as stack:
        process = stack.enter_context(begun(here))
        stack.callback(process.kill)
        Session(process).open()
        until(lambda: here.records, "its gateway runs")
        pid = gateway_pid(here)
        other = stack.enter_context(session(here, elicitation={}))
        number = other.begin("tools/call", **called("s:sign", "call_tool"))
        question = other.until(lambda each: each.get("method") == "elicitation/create")
        for child in psutil.Process(process.pid).children(recursive=True):
            child.terminate()
        process.terminate()
        process.wait(PATIENCE_S)
        other.send(id=question["id"], result={"action": "accept", "content": {"name": "Ada"}})
        assert "Ada" in json.dumps(other.answer(number)["result"])
        assert gateway_pid(here) == pid


def test_a_bridge_that_is_ended_while_its_gateway_starts_leaves_it(
    here: Cli, scripted: Scripted
) -> None:
    here.configure(s=scripted(tool("echo")))
    with begun(here) as process:
        until(lambda: [*here.home.rglob("run/gateway-*.lock")], "a gateway is starting")
        for child in psutil.Process(process.pid).children(recursive=True):
            child.terminate()
        process.terminate()
        process.wait(PATIENCE_S)
    until(lambda: here.records, "it has started")
    assert alive(gateway_pid(here))


@pytest.mark.requirement("bridge:light")
def test_the_bridge_is_light(here: Cli, scripted: Scripted) -> None:
    here.configure(s=scripted(tool("echo")))
    here.start_gateway()
    with begun(here) as process:
        one = Session(process)
        one.open()
        one.call("s:echo")
        status = Path(f"/proc/{process.pid}/status")
        if status.exists():
            [resident] = [row for row in status.read_text().splitlines() if "VmRSS" in row]
            assert int(resident.split()[1]) < MAX_RESIDENT_MIB * 1024
        process.kill()
    code = "import sys, toolscript.surfaces.cli.mcp_command; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "onnxruntime", "mcp", "mcp_types", "pydantic", "starlette", "anyio"}
    assert not heavy & set(done.stdout.split())


@pytest.mark.requirement("bridge:faithful")
def test_progress_questions_and_cancellation_pass(here: Cli, scripted: Scripted) -> None:
    cancels, hangs = here.home / "cancels", here.home / "hangs"
    here.configure(
        s=scripted(tool("work") | WRITES, progress=2),
        asks=scripted(tool("sign") | WRITES, elicits="Your name?"),
        h=scripted(tool("hang") | WRITES, silent=["hang"], cancels=str(cancels), calls=str(hangs)),
    )
    with session(here, elicitation={}) as one:
        asked = called("s:work", "call_tool")
        number = one.begin("tools/call", **asked, _meta={"progressToken": "p"})
        assert "result" in one.answer(number)
        heard = [each for each in one.others if each.get("method") == "notifications/progress"]
        assert [each["params"]["message"] for each in heard][-2:] == ["step 1", "step 2"]

        asked = called("asks:sign", "call_tool")
        number = one.begin("tools/call", **asked)
        question = one.until(lambda each: each.get("method") == "elicitation/create")
        reply = {"action": "accept", "content": {"name": "Ann"}}
        one.send(id=question["id"], result=reply)
        assert said(one.answer(number)["result"])["content"] == {"name": "Ann"}

        asked = called("h:hang", "call_tool")
        number = one.begin("tools/call", **asked)
        until(hangs.exists, "it is under way")
        one.send(method="notifications/cancelled", params={"requestId": number})
        until(cancels.exists, "the server hears of it")
        assert one.ask("ping") == {}
        # Else the gateway would wait for it when it is to end. One is this request.
        until(lambda: "\ntoolscript_requests_running 1" in metrics(here), "it runs no more")


@pytest.mark.requirement("bridge:faithful")
def test_a_large_message_passes(here: Cli, scripted: Scripted) -> None:
    here.configure(s=scripted(tool("echo")))
    with session(here) as one:
        text = "x" * 2_000_000
        [block] = one.call("s:echo", text=text)["content"]
        [handle] = re.findall(r"read_result with handle '(\w+)'", block["text"])
        last = {"handle": handle, "lines": "1001-"}
        [rest] = one.ask("tools/call", name="read_result", arguments=last)["content"]
        assert rest["text"].startswith("lines 1001 to 1003 of 1003:\nxxx")


@pytest.mark.requirement("bridge:faithful")
def test_a_client_that_stops_reading_gets_no_traceback(here: Cli, scripted: Scripted) -> None:
    calls = here.home / "calls"
    here.configure(s=scripted(tool("echo"), calls=str(calls)))
    pipe = subprocess.PIPE
    environ = here.environment({"TOOLSCRIPT_PORT": "0"})
    with subprocess.Popen(
        here.command("mcp"), env=environ, cwd=here.home, stdin=pipe, stdout=pipe, stderr=pipe
    ) as process:
        one = Session(process, reads=False)
        one.open_blindly()
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        for number in (1, 2, 3):
            one.begin("tools/call", **called("s:echo"))
            until(lambda n=number: len(lines(calls)) == n, "the server gets the call")
        process.stdin.close()
        words = process.stderr.read().decode()
    assert words in {"", "toolscript: Broken pipe\n"}


@pytest.mark.requirement("bridge:survives")
@pytest.mark.both_storages
def test_a_session_survives_its_gateway(here: Cli, scripted: Scripted) -> None:
    """Killed again and again: nothing is called twice, and what is unknown is said."""
    calls = here.home / "calls"
    here.configure(
        s=scripted(tool("count"), calls=str(calls)),
        h=scripted(tool("hang") | WRITES, silent=["hang"], calls=str(here.home / "hangs")),
    )
    with ExitStack() as stack:
        sessions = [stack.enter_context(session(here)) for _ in range(3)]
        for turn in range(3):
            for number, each in enumerate(sessions):
                assert said(each.call("s:count", at=f"{turn}-{number}"))["arguments"]
            hang = called("h:hang", "call_tool")
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


@pytest.mark.requirement("bridge:faithful")
@pytest.mark.parametrize("message", ODD, ids=json.dumps)
def test_an_odd_message_does_not_end_the_session(
    here: Cli, scripted: Scripted, message: dict[str, Any]
) -> None:
    here.configure(s=scripted(tool("count")))
    with session(here) as one:
        one.send(**message)
        one.send(method="notifications/x")
        assert one.ask("ping") == {}


@pytest.mark.requirement("bridge:survives")
def test_a_question_of_a_gateway_that_is_gone_is_withdrawn(here: Cli, scripted: Scripted) -> None:
    here.configure(s=scripted(tool("sign") | WRITES, elicits="Your name?"))
    with session(here, elicitation={}) as one:
        asked = called("s:sign", "call_tool")
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
def test_a_gateway_ends_without_clients_and_not_during_a_call(
    here: Cli, scripted: Scripted
) -> None:
    """The call is a command's, over HTTP: no session keeps the gateway running beside it.

    It takes longer than the gateway waits for a client, and then for open connections.
    """
    calls = here.home / "calls"
    here.configure(s=scripted(tool("echo") | WRITES, slow=4, calls=str(calls)))
    command = here.command("call", "s__echo", '{"a": 1}')
    env = here.environment({"TOOLSCRIPT_PORT": "0"})  # which a command does not use
    with launcher.helper(HELPERS / "idle_gateway.py", "3", env=env) as (_, gateway):
        until(lambda: here.records, "it listens")
        with session(here) as one:
            one.ask("ping")  # which the gateway answers
            assert gateway_pid(here) == gateway.pid
            process = subprocess.Popen(command, env=env, cwd=here.home, stdout=subprocess.PIPE)
            until(lambda: lines(calls), "the call is under way")
        shown, _ = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, b'"a": 1' in shown) == (0, True), shown
        assert len(lines(calls)) == 1
        assert gateway.wait(PATIENCE_S) == 0, "it ends after the call"
    assert not processes(f"{scripted.directory}")
    with session(here) as one:
        assert said(one.call("s:echo", a=1))["arguments"] == {"a": 1}
        assert gateway_pid(here) != gateway.pid


def test_a_gateway_of_another_version_or_without_scripts_serves_and_is_named(
    here: Cli, scripted: Scripted
) -> None:
    here.configure(s=scripted(tool("echo")))
    here.start_gateway()
    [path] = here.records
    path.write_text(json.dumps({**here.record(), "version": "9.0", "mode": "new"}), "utf-8")
    problem = here.home / "problem"
    with (
        problem.open("wb") as errors,
        subprocess.Popen(
            here.command("mcp", "--scripts"),
            env=here.environment(),
            cwd=here.home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):
        one = Session(process)
        one.open()
        assert said(one.call("s:echo", a=1))["arguments"] == {"a": 1}
        assert process.stdin
        process.stdin.close()
        process.wait(PATIENCE_S)
    assert "the gateway has version 9.0, and this is " in problem.read_text("utf-8")
    assert "runs without --scripts, so models get no run_script" in problem.read_text("utf-8")


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


@pytest.mark.requirement("upstream:instances")
def test_the_first_session_decides_no_servers_folder(here: Cli, scripted: Scripted) -> None:
    """Else what lies in its folder would run for all: `python -m notes`, for example."""
    folder = here.home / "first"
    folder.mkdir()
    entry = scripted(tool("where"), tells=True)
    here.configure(s=entry, p={**entry, "cwd": "${PROJECT}"})
    with session(here, cwd=folder) as one:
        assert said(one.call("s:where"))["cwd"] == str(here.home)
        assert said(one.call("p:where"))["cwd"] == str(folder)
        bearer = {"Authorization": f"Bearer {create_token(here)['token']}"}
        sent = {**bearer, "Content-Type": "application/json"}
        url = here.record()["url"]
        _, answer = fetch(url, "/tools/p__where", method="POST", headers=sent, body=b"{}")
        assert said(answer)["cwd"] == str(here.home)


@pytest.mark.requirement("bridge:survives")
def test_what_opens_a_session_is_answered_before_there_is_a_gateway(
    here: Cli, scripted: Scripted
) -> None:
    """As the last gateway did; the client hears of changes if there are any."""
    here.configure(s=scripted(tool("count")))
    opening = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": CLIENT}
    with session(here) as first:
        listed = first.ask("tools/list")
        first.call("s:count")
    here("gateway", "stop")
    [file] = here.home.rglob("run/answers-*.json")
    for server in ("s", "other"):
        here.configure(**{server: scripted(tool("count"))})
        url, key = here.start_gateway(), here.record()["key"]
        until(lambda server=server: server in here("list-servers").stdout, "it is there")
        may_open = Event()

        def connect(url: str = url, key: str = key, gate: Event = may_open) -> Exchange:
            assert gate.wait(PATIENCE_S)
            return open_stream(RemoteClient(url, "", key), "/mcp/search/stream")

        answers = HandshakeCache(file, "/mcp/search/stream", None)
        with in_process(connect, answers) as (client, finish):
            assert " the tools of s. " in client.ask("initialize", **opening)["instructions"]
            client.send(method="notifications/initialized")
            assert client.ask("tools/list") == listed
            waiting = client.begin("tools/call", name="search_tools", arguments={"query": "count"})
            odd = [client.begin(method) for method in ("no_such_method", "ping")]
            for message in ODD:
                client.send(**message)
            assert client.process.stdin
            client.process.stdin.write(b"[5]\n")
            client.process.stdin.flush()
            for identifier in (None, None, 7, None, None):  # those of ODD that are no messages
                assert client.until(lambda each, i=identifier: each.get("id") == i)["error"]
            assert not client.others
            may_open.set()
            assert client.answer(waiting)
            refused, answered = (client.answer(number) for number in odd)
            assert ("error" in refused, answered["result"]) == (True, {})
            if server == "other":
                client.until(lambda each: each.get("method", "").endswith("tools/list_changed"))
                assert client.ask("tools/list") != listed
            finish()
        assert not client.others
        here("gateway", "stop")


@pytest.mark.requirement("bridge:survives")
@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_the_very_first_session_is_answered_before_there_is_a_gateway(
    here: Cli, scripted: Scripted, version: str
) -> None:
    """From the configuration alone, and as the gateway answers afterwards."""
    here.configure(s=scripted(tool("count")), off=scripted(tool("count")) | {"disabled": True})
    settings = load_settings(
        {"config": here.home / ".toolscript.json", "data_dir": here.home / "d"}
    )
    opening = {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT}
    may_open = Event()

    def connect() -> Exchange:
        assert may_open.wait(PATIENCE_S)
        record = here.record()
        return open_stream(RemoteClient(record["url"], "", record["key"]), "/mcp/search/stream")

    def open_session(answers: HandshakeCache) -> list[Any]:
        with in_process(connect, answers) as (client, finish):
            told = [client.ask("initialize", **opening)]
            client.send(method="notifications/initialized")
            told.append(client.ask("tools/list"))
            if not may_open.is_set():
                here.start_gateway()
                may_open.set()
            assert client.call("s:count")
            finish()
            assert not client.others, "it hears of no change"
        return told

    at_first = open_session(HandshakeCache(None, first=partial(answer_first, settings)))
    assert at_first == open_session(HandshakeCache(None))


@contextmanager
def in_process(
    connect: Callable[[], Exchange], answers: HandshakeCache
) -> Generator[tuple[Session, Callable[[], None]]]:
    """A client of a bridge in this process, and what ends its session."""
    (source, given), (read, sink) = os.pipe(), os.pipe()
    with ExitStack() as stack:
        to_bridge, from_bridge = (stack.enter_context(os.fdopen(fd, "rb")) for fd in (source, read))
        bridge_out, to_source = (stack.enter_context(os.fdopen(fd, "wb")) for fd in (sink, given))
        bridge = Thread(target=Bridge(connect, to_bridge, bridge_out, answers).run, daemon=True)
        bridge.start()

        def finish() -> None:
            to_source.close()
            bridge.join(PATIENCE_S)
            assert not bridge.is_alive()
            bridge_out.close()

        pipes: Any = SimpleNamespace(stdin=to_source, stdout=from_bridge)
        yield Session(pipes), finish
