"""What servers use, measured on real processes: upstream:resources."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.gateway.upstream.test_request_router import Asked, call
from tests.support import Running, Scripted, alive, running, tool, until, write_config
from toolscript.gateway.process.process_resources import measure
from toolscript.types import ServerResources

NEVER = {"TOOLSCRIPT_IDLE_TIMEOUT": "0"}
NOTHING = ServerResources(instances=0, processes=0, memory_bytes=0, cpu_s=0.0)
MIB = 2**20
SLEEPS = "import sys; print('ready', flush=True); sys.stdin.read()"
FAMILY = f"""
import subprocess, sys
child = subprocess.Popen(
    [sys.executable, "-S", "-c", "kept = bytearray(50 * {MIB}); {SLEEPS}"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE,
)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
"""
WORKED = """
import subprocess, sys
work = "import time\\nwhile time.process_time() < 0.3: pass"
subprocess.run([sys.executable, "-S", "-c", work], check=True)
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def program(text: str) -> Generator[tuple[int, str]]:
    """The id of an interpreter that runs this text, and the first line that it prints."""
    command = [sys.executable, "-S", "-c", text]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout
        yield process.pid, process.stdout.readline().strip()


@pytest.mark.requirement("upstream:resources")
def test_a_process_is_measured_with_its_children() -> None:
    with program(SLEEPS) as (single, _), program(FAMILY) as (parent, child):
        found = measure({"single": [single], "both": [single, parent], "none": []})
        assert found["none"] == NOTHING
        assert (found["single"].instances, found["single"].processes) == (1, 1)
        assert (found["both"].instances, found["both"].processes) == (2, 3)
        assert found["single"].memory_bytes > MIB
        assert found["both"].memory_bytes > found["single"].memory_bytes + 50 * MIB
        assert found["both"].cpu_s >= found["single"].cpu_s >= 0
        os.kill(int(child), signal.SIGKILL)
        until(lambda: not alive(int(child)), "the child has ended; nobody has waited for it")
        assert measure({"family": [parent]})["family"].processes == 1


def test_a_process_that_is_gone_is_left_out() -> None:
    with program(SLEEPS) as (gone, _):
        pass
    with program(SLEEPS) as (here, _):
        found = measure({"gone": [gone], "half": [gone, here]})
    assert found["gone"] == NOTHING
    assert (found["half"].instances, found["half"].processes) == (1, 1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the time of ended children")
def test_what_an_ended_child_has_computed_counts() -> None:
    with program(WORKED) as (parent, _):
        found = measure({"s": [parent]})["s"]
        assert found.processes == 1
        assert found.cpu_s >= 0.25  # the kernel counts in ticks of 10 ms, and rounds down


def resources(app: Running) -> Mapping[str, ServerResources]:
    return app.portal.call(app.app.catalogue().resources)


@pytest.mark.requirement("upstream:resources")
def test_a_server_is_measured_while_it_runs(scripted: Scripted, tmp_path: Path) -> None:
    """With what it started; a resting one uses nothing, and a remote one nothing here."""
    entries = {
        "family": scripted(tool("echo"), child=str(tmp_path / "child")),
        "mortal": scripted(tool("echo"), starts=str(tmp_path / "starts")),
        "far": {"url": "http://127.0.0.1:9/mcp"},
        "off": {**scripted(), "disabled": True},
    }
    config = write_config(tmp_path / "config.json", entries)
    with running(config, {"TOOLSCRIPT_IDLE_TIMEOUT": "0.3"}) as app:
        app.settle()
        app.wait_for("family", "resting")
        app.wait_for("mortal", "resting")
        assert resources(app) == {"family": NOTHING, "mortal": NOTHING}
    with running(config, NEVER) as app:
        app.settle()
        call(app, "family__echo")
        found = resources(app)
        assert (found["family"].instances, found["family"].processes) == (1, 2)
        assert found["family"].memory_bytes > MIB
        assert found["mortal"] == NOTHING
        call(app, "mortal__echo")
        first = _last_start(tmp_path)
        os.kill(first, signal.SIGKILL)
        until(lambda: _last_start(tmp_path) != first, "it is started again")
        until(lambda: resources(app)["mortal"].instances == 1, "the new process is measured")


def _last_start(folder: Path) -> int:
    return int((folder / "starts").read_text("utf-8").split()[-1])


@pytest.mark.requirement("upstream:resources")
def test_all_instances_of_a_server_count(scripted: Scripted, tmp_path: Path) -> None:
    entry = {**scripted(tool("echo")), "share": False}
    with running(write_config(tmp_path / "config.json", {"s": entry}), NEVER) as app:
        app.settle()
        for session in "ab":
            call(app, "s__echo", Asked(session_id=session))
        found = resources(app)["s"]
        assert (found.instances, found.processes) == (3, 3)
        app.portal.call(app.app.end_session, "a")
        until(lambda: resources(app)["s"].instances == 2, "the session's instance has ended")
