"""A background task that dies ends its process, with a reason; what can be contained does not.

The tasks die of a library that fails: its stand-in is found first by way of ``PYTHONPATH``.
"""

import json
import os
import subprocess
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.support import (
    READ_FILE,
    Cli,
    Scripted,
    fetch,
    kill_all,
    post,
    processes,
    until,
    unused_pins,
)
from toolscript.app.task_monitor import TaskMonitor
from toolscript.config.follower import Follower
from toolscript.config.servers import Config
from toolscript.errors import TaskDiedError
from toolscript.gateway.base import Caller, Connect, Ready, Report
from toolscript.gateway.catalogue import Catalogue
from toolscript.gateway.gateway import Gateway
from toolscript.types import ServerSpec

WATCHING = """
import os, pathlib, anyio
async def awatch(*roots, **more):
    while not pathlib.Path(os.environ["FAILS"]).exists():
        await anyio.sleep(0.05)
        yield set()
    raise LookupError("\\x1b[31mno such watch")
"""
"""In place of watchfiles: fails once there is a file."""
IMPORTING = """
import sys
class Broken:
    def find_spec(self, name, *_):
        if name == "mcp.client.auth":
            raise TypeError("this package is broken")
sys.meta_path.insert(0, Broken())
"""
"""Run at the start of each process: breaks a module that only a gateway's servers import."""
TASKS = {
    *("activity", "configuration", "index", "learning", "mcp"),
    *("revocations", "servers", "skills"),
}  # fmt: skip
REASON = "the background task skills died (LookupError), and the process with it"


@pytest.fixture
def failing(cli: Cli, tmp_path: Path) -> Path:
    """The file that lets watching fail, in every process of this command line."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "watchfiles.py").write_text(WATCHING, "utf-8")
    skill = cli.home / ".claude" / "skills" / "note.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("Water the lawn before sunrise.", "utf-8")
    file = tmp_path / "fails"
    cli.env |= {"PYTHONPATH": str(tmp_path / "library"), "FAILS": str(file)}
    return file


@contextmanager
def foreground(cli: Cli) -> Generator["subprocess.Popen[str]"]:
    """A gateway that is ready, as a supervisor would run it."""
    command = cli.command("gateway", "start", "--open", "--foreground", "--port", "0")
    env, pipe = cli.environment(), subprocess.PIPE
    with subprocess.Popen(command, env=env, cwd=cli.home, stderr=pipe, text=True) as process:
        try:
            until(lambda: cli.records and health(cli)[1].get("status") == "ready", "it is ready")
            yield process
        finally:
            kill_all([process.pid])


def health(cli: Cli) -> tuple[int, Any]:
    record = cli.record()
    return fetch(record["url"], "/health", headers={"Authorization": f"Bearer {record['key']}"})


def died(cli: Cli) -> Any:
    """What ``/health`` says of a task that has died; None as long as none has."""
    status, answer = health(cli)
    return answer if status == 503 else None


def test_h1_a_background_task_that_dies_ends_the_process(
    cli: Cli, scripted: Scripted, failing: Path
) -> None:
    """Nothing goes on as if it were well: not /health, not the servers, not the process."""
    cli.configure(files=scripted(READ_FILE, stubborn=True))  # which takes seconds to close
    with foreground(cli) as process:
        url = cli.record()["url"]
        assert set(health(cli)[1]["tasks"]) == TASKS
        assert set(health(cli)[1]["tasks"].values()) == {"running"}
        failing.touch()
        answer = until(lambda: died(cli), "it is said")
        assert answer["status"] == "failed"
        assert REASON in answer["error"]
        assert answer["type"] == "TaskDiedError"
        assert answer["tasks"]["skills"] == "died"
        status, refused = fetch(url, "/search", {"q": "read a file"})
        assert (status, refused["type"]) == (503, "TaskDiedError")
        assert post(url, "/skills/update", {})[0] == 503
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    lines = said.splitlines()
    assert "toolscript: the background task skills died: LookupError: [31mno such watch" in lines
    assert "Traceback (most recent call last)" in said
    assert lines[-1].startswith(f"toolscript: {REASON}")
    assert not cli.records
    assert cli("gateway", "status").returncode == 3


def test_h1_a_gateway_that_dies_at_its_start_does_not_start(
    cli: Cli, scripted: Scripted, tmp_path: Path
) -> None:
    """With a package that its servers need broken, say."""
    (tmp_path / "sitecustomize.py").write_text(IMPORTING, "utf-8")
    cli.env["PYTHONPATH"] = str(tmp_path)
    cli.configure(files=scripted(READ_FILE))
    done = cli("gateway", "start", "--open", "--port", "0")
    assert done.returncode == 1
    assert "the background task servers died (TypeError)" in done.stderr
    assert not processes(str(cli.home))
    done = cli("list-servers")
    assert done.returncode == 1
    assert "toolscript: the background task servers died: TypeError: this package" in done.stderr
    assert "died (TypeError), and the process with it" in done.stderr.splitlines()[-1]


def test_h1_the_mcp_server_ends_although_its_client_goes_on(
    cli: Cli, scripted: Scripted, failing: Path
) -> None:
    cli.configure(files=scripted(READ_FILE))
    pipe = subprocess.PIPE
    with subprocess.Popen(
        cli.command("mcp", "--alone"),
        env=cli.environment(),
        cwd=cli.home,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        ask = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        process.stdin.write(json.dumps(ask) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        failing.touch()
        assert process.wait(60) == 1, "with its input still open"
        assert process.stderr
        assert process.stderr.read().splitlines()[-1].startswith(f"toolscript: {REASON}")
    assert not processes(str(scripted.directory / "x"))


class _PanicError(BaseException):
    """As a library in Rust raises it."""


def run_supervised(scene: Callable[[TaskMonitor], Any]) -> TaskMonitor:
    monitor = TaskMonitor()

    async def act() -> None:
        with anyio.fail_after(30):
            await scene(monitor)

    anyio.run(act)
    return monitor


@pytest.mark.parametrize("error", [KeyError("x"), _PanicError("x"), MemoryError()])
def test_h1_whatever_a_task_dies_of_is_noted(error: BaseException) -> None:
    async def die() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            raise error

    async def scene(monitor: TaskMonitor) -> None:
        with pytest.raises(TaskDiedError):
            await monitor.run("one", die)

    monitor = run_supervised(scene)
    assert monitor.states == {"one": "died"}
    assert type(error).__name__ in str(monitor.failure)


def test_h1_who_waits_for_a_task_that_dies_is_told() -> None:
    """A command in this process, say, that waits until skills are indexed."""
    waits = anyio.Event()

    async def die() -> None:
        await waits.wait()
        raise KeyError

    async def wait() -> None:
        waits.set()
        await anyio.sleep_forever()

    async def scene(monitor: TaskMonitor) -> None:
        assert await monitor.while_healthy(_soon("value")) == "value"
        with pytest.raises(ValueError, match="of its own"):
            await monitor.while_healthy(_soon(ValueError("of its own")))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(raises_task_died, partial(monitor.run, "one", die))
            tasks.start_soon(raises_task_died, partial(monitor.while_healthy, wait()))

    monitor = run_supervised(scene)
    assert not monitor.is_busy


async def raises_task_died(work: Callable[[], Awaitable[object]]) -> None:
    with pytest.raises(TaskDiedError):
        await work()


async def _soon(value: object) -> object:
    await anyio.lowlevel.checkpoint()
    if isinstance(value, Exception):
        raise value
    return value


class _Upstream:
    """One that is ready at once, or raises what no upstream should."""

    def __init__(self, spec: ServerSpec, report: Callable[[Report], None]) -> None:
        self._spec = spec
        self._report = report

    @property
    def pid(self) -> int | None:
        return None

    async def run(self) -> None:
        if self._spec.name == "bad":
            raise KeyError(self._spec.name)
        self._report(Ready(tools=(), version="", rejected=()))
        await anyio.sleep_forever()

    def list_again(self) -> None:
        """Nothing is listed."""

    async def send(self, method: str, params: dict[str, Any], caller: Caller) -> dict[str, Any]:
        del params, caller
        return {"method": method}


class _Connect:
    def __call__(self, spec: ServerSpec, report: Callable[[Report], None]) -> _Upstream:
        return _Upstream(spec, report)

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.anyio
async def test_h1_a_fault_in_one_connection_costs_no_other_server() -> None:
    specs = tuple(ServerSpec(name=name, transport="stdio") for name in ("bad", "good"))
    connector: Callable[[], Connect] = _Connect
    gateway = Gateway(Config((Path("/c.json"),), specs), Catalogue({}), connector, unused_pins())
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(gateway.run)
            await gateway.settle()
            tasks.cancel_scope.cancel()
    states = {status.name: status for status in gateway.statuses()}
    assert states["good"].state == "ready"
    assert states["bad"].state == "failed"
    assert states["bad"].error == "toolscript failed (KeyError); its log says why"
    assert states["bad"].retry


def test_h1_a_configuration_that_cannot_be_read_is_not_followed(tmp_path: Path) -> None:
    """Whatever is wrong with it: the gateway goes on with what it has."""
    file = tmp_path / "c.json"
    file.write_text("{}", "utf-8")

    def load() -> Config:
        raise RecursionError

    follower = Follower(Config((file,), ()), lambda: (file,), load)
    file.write_text("other", "utf-8")
    os.utime(file, (1, 1))
    assert follower.poll() is None
    assert follower.problem == "it could not be read (RecursionError); the log says why"
