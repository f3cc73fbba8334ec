"""Faults of the disk, and kills, under a gateway that learns: rows H3 and L13.

The promise: a call that is older than a second stays learned, whatever fails for the moment; no
file is damaged; commands go on.
"""

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from tests.endurance.effort import Effort
from tests.gateways import Started, at_once, configure, scripted
from tests.support import until
from toolscript.graph.graph_store import GraphStore
from toolscript.graph.tool_graph import ToolGraph
from toolscript.graph.usage import Usage

_SETTINGS = {"TOOLSCRIPT_SEARCH_MODEL": "bundled", "HF_HUB_OFFLINE": "1"}
_PACE_S = 0.03
_SAVED_AFTER_S = 1.0
"""A call of that age is on the disk."""
_PATIENCE_S = 30.0
_FAULT_S = 7.0
"""Longer than the gateway waits for a lock."""
_ALARMS = ("damaged", "repair", "delete")
"""Words that no message may have while every file is well."""


@dataclass
class Learner:
    """A data directory with a configuration of one server, and the calls that were answered."""

    folder: Path
    answered: list[float] = field(default_factory=list[float])
    """When each call was answered, of those since `recount`."""
    before: int = 0

    def __post_init__(self) -> None:
        """Writes the configuration."""
        echo = {"name": "echo", "description": "Say it again", "inputSchema": {"type": "object"}}
        configure(self.folder, {"good": scripted(tools=[echo])})

    @contextmanager
    def gateway(self, log: IO[bytes]) -> Generator[Started]:
        """Runs a gateway over the directory."""
        for record in (self.folder / "run").glob("gateway-*.json"):
            record.unlink()  # of one that was killed
        with at_once(self.folder, log, **_SETTINGS) as gateway:
            until(lambda: self.call(gateway), "the tool answers")
            yield gateway

    def call(self, gateway: Started) -> bool:
        """Calls the tool; returns whether it was answered."""
        answered = gateway.ask("POST", "/tools/good__echo", b"{}")[0] == 200
        if answered:
            self.answered.append(time.monotonic())
        return answered

    def call_for(self, gateway: Started, duration_s: float) -> None:
        """Calls the tool again and again."""
        end = time.monotonic() + duration_s
        while time.monotonic() < end:
            self.call(gateway)
            time.sleep(_PACE_S)

    @property
    def graph(self) -> Path:
        """The file of what was learned."""
        return next((self.folder / "graph").glob("graph-*.sqlite"))

    def learned(self) -> int:
        """Returns how many calls are on the disk."""
        graph, key = ToolGraph(), self.graph.stem.removeprefix("graph-")
        return graph.stats().calls if GraphStore(self.graph.parent, key).load(graph, Usage()) else 0

    def lost(self, before: float) -> int:
        """Returns how many of the calls that were answered before a time are not on the disk."""
        promised = self.before + sum(when <= before for when in self.answered)
        return max(0, promised - self.learned())

    def recount(self) -> None:
        """Begins with what is on the disk now."""
        self.before, self.answered = self.learned(), []

    @property
    def is_well(self) -> bool:
        """Whether no file was damaged, or taken for it."""
        files = self.folder.rglob("*.sqlite")
        return not [*self.folder.rglob("*damaged*")] and all(map(_is_sound, files))


def _is_sound(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("pragma integrity_check").fetchone() == ("ok",)


@contextmanager
def locked(learner: Learner, _: Started) -> Generator[None]:
    """Has another process hold the file's lock."""
    code = (
        "import sqlite3, sys\n"
        "db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)\n"
        "db.execute('begin exclusive')\nprint(flush=True)\nsys.stdin.read()"
    )
    command, pipe = [sys.executable, "-c", code, str(learner.graph)], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as holder:
        assert holder.stdout
        holder.stdout.readline()
        yield
        holder.communicate()


@contextmanager
def _limited(pid: int, kind: int, limit: int) -> Generator[None]:
    before = resource.prlimit(pid, kind)
    resource.prlimit(pid, kind, (limit, before[1]))
    yield
    resource.prlimit(pid, kind, before)


def full_disk(_: Learner, gateway: Started) -> AbstractContextManager[None]:
    """Lets the gateway write no byte."""
    return _limited(gateway.pid, resource.RLIMIT_FSIZE, 0)


def no_descriptors(_: Learner, gateway: Started) -> AbstractContextManager[None]:
    """Leaves the gateway one descriptor, for a connection."""
    used = {int(path.name) for path in Path(f"/proc/{gateway.pid}/fd").iterdir()}
    free = [number for number in range(len(used) + 2) if number not in used]
    return _limited(gateway.pid, resource.RLIMIT_NOFILE, free[1])


@pytest.mark.long  # the usual run has `tests/hostile/test_storage.py`
@pytest.mark.parametrize("fault", [locked, full_disk, no_descriptors])
def test_h3_calls_during_a_fault_are_learned_when_it_ends(
    tmp_path: Path,
    effort: Effort,
    fault: Callable[[Learner, Started], AbstractContextManager[None]],
) -> None:
    learner, log = Learner(tmp_path), tmp_path / "log"
    with log.open("wb") as errors, learner.gateway(errors) as gateway:
        until(lambda: [*tmp_path.glob("graph/*.sqlite")], "something was learned")
        time.sleep(2 * _SAVED_AFTER_S)
        for _ in range(effort.times(2)):
            learner.recount()
            with fault(learner, gateway):
                learner.call_for(gateway, _FAULT_S)
            ended = time.monotonic()
            until(lambda ended=ended: not learner.lost(ended), "every call is learned", _PATIENCE_S)
    assert learner.is_well
    assert not [word for word in _ALARMS if word in log.read_text("utf-8", "replace")]


def test_h3_what_is_older_than_a_second_survives_kills(tmp_path: Path, effort: Effort) -> None:
    learner, chance = Learner(tmp_path), effort.chance
    for _ in range(effort.times(25)):
        with (tmp_path / "log").open("wb") as log, learner.gateway(log) as gateway:
            until(lambda: [*tmp_path.glob("graph/*.sqlite")], "something was learned")
            learner.call_for(gateway, chance.uniform(0.3, 1.8))
            killed = time.monotonic()
            os.kill(gateway.pid, signal.SIGKILL)
        assert learner.is_well
        assert not learner.lost(killed - _SAVED_AFTER_S)
        learner.recount()
