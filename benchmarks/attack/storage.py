"""Faults of the disk: locks, no space, no descriptors, kills, flipped bits, empty files.

The promise: a call that is older than a second stays learned, whatever fails for the
moment; no file is damaged by a kill, and damage is said; commands go on where nothing
can be kept.
"""

import contextlib
import http.client
import logging
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from benchmarks import gateways
from benchmarks.attack.base import Effort, Outcome
from toolscript.graph.graph_store import GraphStore
from toolscript.graph.tool_graph import ToolGraph
from toolscript.graph.usage import Usage

TOOL = "good__echo"
_SETTINGS = {"TOOLSCRIPT_SEARCH_MODEL": "bundled", "HF_HUB_OFFLINE": "1"}
_PACE_S = 0.03
_KEPT_AFTER_S = 1.0
"""So old, a call is on the disk."""
_PATIENCE_S = 30.0
_FAULT_S = 7.0
"""Longer than the gateway waits for a lock."""
_MESSAGES = ("damaged", "repair", "delete")
"""What is not to be said where a file is well."""


def attacks(effort: Effort) -> Iterator[Outcome]:
    """Everything that can happen to what is kept."""
    chosen = random.Random(effort.seed)  # noqa: S311 - moments and places, nothing more
    with tempfile.TemporaryDirectory() as folder:
        yield from _faults(_Data(Path(folder)), effort)
    with tempfile.TemporaryDirectory() as folder:
        yield _kills(_Data(Path(folder)), effort.times(60), chosen)
    with tempfile.TemporaryDirectory() as folder:
        yield _flips(_Data(Path(folder)), effort.times(1500), chosen)
    with tempfile.TemporaryDirectory() as folder:
        yield _emptied(_Data(Path(folder)))
    with tempfile.TemporaryDirectory() as folder:
        yield _unwritable(_Data(Path(folder)))


@dataclass
class _Data:
    """A data directory with a configuration of one server, and what is known of it."""

    folder: Path
    made: list[float] = field(default_factory=list[float])
    """When each call was answered, of those since ``before`` was counted."""
    before: int = 0

    def __post_init__(self) -> None:
        """Write the configuration."""
        echo = {"name": "echo", "description": "Say it again", "inputSchema": {"type": "object"}}
        gateways.configure(self.folder, {"good": gateways.scripted(tools=[echo])})

    @property
    def graph(self) -> Path:
        """The file of what was learned."""
        return next((self.folder / "graph").glob("graph-*.sqlite"))

    def learned(self) -> int:
        """How many calls are on the disk."""
        graph = ToolGraph()
        if not [*self.folder.glob("graph/*.sqlite")]:
            return 0
        key = self.graph.stem.removeprefix("graph-")
        return graph.stats().calls if GraphStore(self.graph.parent, key).load(graph, Usage()) else 0

    def lost(self, until: float) -> int:
        """How many of the calls that were answered until then are not on the disk."""
        promised = self.before + sum(when <= until for when in self.made)
        return max(0, promised - self.learned())

    def count_again(self) -> None:
        """Begin with what is on the disk now."""
        self.before, self.made = self.learned(), []

    @property
    def is_well(self) -> bool:
        """Whether no file was damaged, or taken for it."""
        files = [*self.folder.rglob("*.sqlite")]
        return not [*self.folder.rglob("*damaged*")] and all(map(_is_sound, files))

    def contents(self) -> dict[Path, bytes]:
        """What is kept, without logs."""
        files = [path for path in self.folder.rglob("*") if path.suffix not in {".log", ".1"}]
        return {path: path.read_bytes() for path in files if path.is_file()}

    def command(self, *arguments: str, before: Sequence[str] = ()) -> tuple[int, str]:
        """Run a command: its exit status, and what it says."""
        environ = {**os.environ, **_SETTINGS, "TOOLSCRIPT_DATA_DIR": str(self.folder)}
        environ["TOOLSCRIPT_CONFIG"] = str(self.folder / "config.json")
        done = subprocess.run(
            [*before, sys.executable, "-m", "toolscript", *arguments],
            env=environ,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=120,
            check=False,
        )
        return done.returncode, done.stderr


def _is_sound(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("pragma integrity_check").fetchone() == ("ok",)


@contextmanager
def _running(data: _Data, log: IO[bytes] | None = None) -> Generator[gateways.Started]:
    for record in (data.folder / "run").glob("gateway-*.json"):
        record.unlink()  # of one that was killed
    with gateways.at_once(data.folder, log, **_SETTINGS) as gateway:
        end = time.monotonic() + _PATIENCE_S
        while not _call(gateway, data) and time.monotonic() < end:
            time.sleep(0.05)
        yield gateway


def _call(gateway: gateways.Started, data: _Data) -> bool:
    """Call the tool; whether it was answered."""
    parts = urlsplit(gateway.url)
    with closing(http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)) as http_:
        try:
            http_.request("POST", f"/tools/{TOOL}", b"{}", {"Content-Type": "application/json"})
            answered = http_.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
    if answered:
        data.made.append(time.monotonic())
    return answered


def _call_for(gateway: gateways.Started, data: _Data, duration_s: float) -> None:
    end = time.monotonic() + duration_s
    while time.monotonic() < end:
        _call(gateway, data)
        time.sleep(_PACE_S)


# Faults that pass


@contextmanager
def _locked(data: _Data, _: gateways.Started) -> Generator[None]:
    code = (
        "import sqlite3, sys\n"
        "db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)\n"
        "db.execute('begin exclusive')\nprint(flush=True)\nsys.stdin.read()"
    )
    command, pipe = [sys.executable, "-c", code, str(data.graph)], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as holder:
        if holder.stdout:
            holder.stdout.readline()
        yield
        holder.communicate()


def _limited(what: int, limit: Callable[[int], int]) -> Callable[..., object]:
    @contextmanager
    def fault(_: _Data, gateway: gateways.Started) -> Generator[None]:
        before = resource.prlimit(gateway.pid, what)
        resource.prlimit(gateway.pid, what, (limit(gateway.pid), before[1]))
        yield
        resource.prlimit(gateway.pid, what, before)

    return fault


def _descriptors(pid: int) -> int:
    """The limit that leaves one number free, for a connection."""
    open_ = {int(each.name) for each in Path(f"/proc/{pid}/fd").iterdir()}
    return [number for number in range(len(open_) + 2) if number not in open_][1]


_PASSING: dict[str, tuple[str, Callable[..., object]]] = {
    "another process holds the lock for 7 s": ("H3", _locked),
    "no byte can be written for 7 s": ("H3", _limited(resource.RLIMIT_FSIZE, lambda _: 0)),
    "out of descriptors for 7 s": ("L13", _limited(resource.RLIMIT_NOFILE, _descriptors)),
}


def _faults(data: _Data, effort: Effort) -> Iterator[Outcome]:
    """Calls go on while the file cannot be used; when it can be again, nothing is missing."""
    log = data.folder / "log"
    with log.open("wb") as said, _running(data, said) as gateway:
        time.sleep(2 * _KEPT_AFTER_S)
        seen = 0
        for name, (finding, fault) in _PASSING.items():
            tried = lost = 0
            late: list[float] = []
            for _ in range(effort.times(2)):
                data.count_again()
                with contextlib.ExitStack() as stack:
                    stack.enter_context(fault(data, gateway))  # type: ignore[arg-type]
                    _call_for(gateway, data, _FAULT_S)
                ended = time.monotonic()
                while data.lost(ended) and time.monotonic() < ended + _PATIENCE_S:
                    time.sleep(0.02)
                late.append(time.monotonic() - ended)
                tried, lost = tried + len(data.made), lost + data.lost(ended)
            words = log.read_text("utf-8", "replace")
            untrue = not data.is_well or any(each in words for each in _MESSAGES)
            bit, seen = words.count("is written again") - seen, words.count("is written again")
            figure = f"took effect {bit} times; all on the disk {max(late):.1f} s after it"
            yield Outcome(finding, name, tried, 0 if untrue else tried - lost, figure)


# Kills


def _kills(data: _Data, times: int, chosen: random.Random) -> Outcome:
    """End a gateway at a random moment; what is older than a second is on the disk."""
    held = calls = 0
    for _ in range(times):
        with (data.folder / "log").open("wb") as log, _running(data, log) as gateway:
            _call_for(gateway, data, chosen.uniform(0.3, 1.8))
            killed = time.monotonic()
            os.kill(gateway.pid, signal.SIGKILL)
        calls += len(data.made)
        held += data.is_well and not data.lost(killed - _KEPT_AFTER_S)
        data.count_again()
    return Outcome("H3", "kill -9 of a gateway that learns", times, held, f"{calls} calls")


# Damage


def _flips(data: _Data, times: int, chosen: random.Random) -> Outcome:
    """Flip a bit, or cut the file: the same is known, or the damage is said."""
    graph = ToolGraph(clock=lambda: 0.0)
    for _ in range(60):
        graph.learn([f"s{chosen.randrange(4)}__t{chosen.randrange(12)}" for _ in range(6)])
    store = GraphStore(data.folder / "graph", "flips")
    store.add(graph.drain_changes(), Usage().drain_changes())
    whole = store.path.read_bytes()
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    logger = logging.getLogger("toolscript")
    logger.addHandler(handler)
    logger.propagate = False
    known, held, noticed = _known(store), 0, 0
    for number in range(times):
        at, bit = chosen.randrange(len(whole)), chosen.randrange(8)
        flipped = whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :]
        store.path.write_bytes(flipped if number % 5 else whole[:at])
        said.clear()
        held += _known(store) == known or bool(said)
        noticed += bool(said)
    logger.removeHandler(handler)
    logger.propagate = True
    return Outcome("L9", "a flipped bit, or a cut", times, held, f"{noticed} noticed, others free")


def _known(store: GraphStore) -> tuple[object, ...]:
    graph = ToolGraph(clock=lambda: 0.0)
    store.load(graph, Usage())
    return graph.stats(), sorted(map(repr, graph.strongest(9999))), repr(graph.data.totals)


def _emptied(data: _Data) -> Outcome:
    """Empty one file after the other: commands go on, and the graph's loss is said."""
    data.command("call", TOOL)
    data.command("search", "echo")
    files = [
        path
        for path in data.folder.rglob("*")
        if path.is_file() and path.suffix in {".json", ".npy", ".sqlite"}
    ]
    files.remove(data.folder / "config.json")
    held = 0
    for path in files:
        whole = path.read_bytes()
        path.write_bytes(b"")
        status, said = data.command("search", "echo")
        held += status == 0 and (path != data.graph or "is damaged" in said)
        path.write_bytes(whole)
    return Outcome("L9", "a file of the data directory is empty", len(files), held)


# Where nothing can be written


def _unwritable(data: _Data) -> Outcome:
    """Commands go on, with one line; and what was there is as it was."""
    data.command("call", TOOL)
    before = data.contents()
    tried = held = 0
    for spoiled in _spoiled(data.folder):
        for command in (["search", "echo"], ["call", TOOL], ["list-servers"], ["skills", "list"]):
            status, said = data.command(*command, before=spoiled)
            lines = [line for line in said.splitlines() if "cannot be" in line]
            tried += 1
            held += status == 0 and len(lines) <= 2 and "damaged" not in said
    held *= data.contents().items() >= before.items()  # there may be more: empty lock files
    return Outcome("M19", "a directory that cannot be written", tried, held)


def _spoiled(folder: Path) -> Iterator[list[str]]:
    yield ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh"]
    yield ["env", f"TOOLSCRIPT_DATA_DIR={folder / 'config.json' / 'data'}"]
    tried = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    if shutil.which("unshare") and not subprocess.run(tried, check=False).returncode:
        mounts = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
        yield ["unshare", "-m", "sh", "-c", mounts, str(folder)]
