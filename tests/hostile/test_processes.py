"""Gateways that are killed or do not end, and what others make of that."""

import contextlib
import fcntl
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import FUZZY, READ_FILE, Cli, Scripted, alive, post, processes, tool, until
from toolscript.gateway.process.reap import TAG_VARIABLE, reap
from toolscript.surfaces.server.gateway_file import GatewayFile


@pytest.fixture
def home(cli: Cli, scripted: Scripted) -> Cli:
    """A command line with one server, of whose tools one never answers."""
    cli.env = FUZZY
    calls = str(scripted.directory / "calls")
    cli.configure(files=scripted(READ_FILE, tool("mute"), silent=["mute"], calls=calls))
    return cli


@contextmanager
def call_under_way(cli: Cli, calls: Path) -> Generator[None]:
    """A call that is never answered: the gateway waits for it for 30 s before it ends."""
    with ThreadPoolExecutor() as pool:
        asking = pool.submit(post, cli.record()["url"], "/tools/files__mute", {})
        until(calls.exists, "the tool is called")
        yield
        assert isinstance(asking.exception(60), OSError), "nothing was answered"


def test_h2_a_gateway_that_does_not_end_is_killed_by_stop(home: Cli, scripted: Scripted) -> None:
    """cli:others: the command says so, and leaves neither process nor record."""
    home.start_gateway()
    pid = home.record()["pid"]
    with call_under_way(home, scripted.directory / "calls"):
        done = home("gateway", "stop", "--timeout", "0.5")
    assert (done.returncode, done.stdout) == (1, "")
    [said] = done.stderr.splitlines()
    assert said.startswith(f"toolscript: process {pid} did not stop within 0.5 s and was killed; ")
    assert not alive(pid)
    assert home.records == []
    until(lambda: not processes(str(scripted.directory)), "its servers have ended", 10)
    assert home("gateway", "status").returncode == 3
    home.start_gateway()
    assert home("gateway", "stop").stdout == "stopped\n"


class _Impostor(http.server.ThreadingHTTPServer):
    """Answers like the gateway that had the address before, and remembers what it is asked."""

    def __init__(self, port: int, pid: int) -> None:
        asked: list[str] = []
        health: dict[str, Any] = {"status": "ready", "tools": 1, "waitingFor": [], "pid": pid}
        others: dict[str, Any] = {"results": [], "servers": [], "tools": [], "content": []}
        answer = json.dumps({**health, "degraded": [], "threshold": 0, **others, "ready": 1})

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                asked.append(f"{self.path} {self.headers} {self.rfile.read(length)}")
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer.encode())

            do_POST = do_GET  # noqa: N815 - as there

            def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 - as there

        self.asked = asked
        super().__init__(("127.0.0.1", port), Handler)


def impostor_at(port: int, pid: int) -> _Impostor | None:
    try:
        return _Impostor(port, pid)
    except OSError:
        return None


def test_l4_a_program_on_a_killed_gateways_port_is_asked_nothing(home: Cli) -> None:
    """cli:others: it gets neither the old key nor the arguments of a call."""
    port = int(home.start_gateway().rsplit(":", 1)[1])
    [path], pid = home.records, home.record()["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid), "it is gone")
    assert path.exists(), "the record stays"
    with until(lambda: impostor_at(port, pid), "the port is free") as impostor:
        threading.Thread(target=impostor.serve_forever, daemon=True).start()
        called = home("call", "files__read_file", '{"password": "hunter2"}')
        assert called.returncode == 0, called.stderr
        assert "hunter2" in called.stdout
        assert home.json("search", "read_file")["results"]
        assert home("gateway", "status").returncode == 3
        assert home("gateway", "stop").stdout == "not running\n"
        impostor.shutdown()
        assert impostor.asked == []
    assert home("gateway", "start", "--port", "0").returncode == 0


def test_l4_a_look_is_not_taken_for_a_gateway(tmp_path: Path) -> None:
    file = GatewayFile(tmp_path, "key")
    with file.lock():
        assert file.is_locked()
    with file.path.with_suffix(".lock").open("ab+") as look:
        fcntl.flock(look, fcntl.LOCK_SH)
        assert not file.is_locked()


_EMPTIES = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
    os.execve(sys.executable, [sys.executable, "-S", "-c", code, sys.argv[1]], {})
time.sleep(600)
"""


def is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is marked")
def test_l6_a_child_that_empties_its_environment_ends_with_its_group(tmp_path: Path) -> None:
    """upstream:isolation: here by what ends the servers of a gateway that was killed."""
    program = [sys.executable, "-S", "-c", _EMPTIES, str(tmp_path)]
    mark = f"{os.getpid()}-empties."
    process = subprocess.Popen(program, env={TAG_VARIABLE: mark}, start_new_session=True)
    try:
        until(lambda: len(processes(str(tmp_path))) == 2, "it has begun")
        reap(mark)
        process.wait(60)
        until(lambda: is_gone(process.pid), "the whole group has ended", 10)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
