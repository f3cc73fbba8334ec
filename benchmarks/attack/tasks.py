"""Hostile skills, configurations and libraries against the background tasks of a running gateway.

A file may cost itself; a task may die of a fault, and then its process with it. What must
not be is a gateway that goes on as if all were well.
"""

import http.client
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from benchmarks.attack.base import Effort, Outcome
from benchmarks.chaos.observed import BLOCKED_S, lag
from benchmarks.chaos.servers import living
from benchmarks.gateways import Started, configure, gateway, scripted, write

_PATIENCE_S = 60.0
_TOOL = {"name": "ping", "description": "Answer", "inputSchema": {"type": "object"}}
_SETTINGS = {"TOOLSCRIPT_SEARCH_MODEL": "none", "TOOLSCRIPT_SEARCH_FALLBACK": "fuzzy"}
_GOOD = "---\nname: lawn\ndescription: How to water the lawn.\n---\nBefore sunrise.\n"
_WATCHFILES = """
import os, pathlib, anyio
async def awatch(*roots, **more):
    while not pathlib.Path(os.environ["FAILS"]).exists():
        await anyio.sleep(0.02)
        yield set()
    raise LookupError("no such watch")
"""


def attacks(effort: Effort) -> Iterator[Outcome]:
    """Skills that nobody should write, then configurations, dying tasks, and a locked disk."""
    chance = random.Random(effort.seed)  # noqa: S311 - it only has to be the same again
    yield from _skills(effort, chance)
    yield from _configurations(effort, chance)
    yield _deaths(effort)
    yield _locks(effort)


# Skills


def _skills(effort: Effort, chance: random.Random) -> Iterator[Outcome]:
    """All of the corpus at once in a folder that is followed, while tools are called."""
    corpus = [*_written_by_hand(), *_mutated(chance, effort.times(400))]
    with _running() as (folder, started):
        roots = folder / "home" / ".claude" / "skills"
        with _Sampler(started, folder) as seen:
            for at in range(0, len(corpus), 40):
                _put(roots, corpus[at : at + 40], at)
                _await_skills(started)
            _put(roots, [("last/SKILL.md", _GOOD.replace("lawn", "last").encode())], 0, plain=True)
            late = _until(lambda: "last" in _skill_names(started))
        yield Outcome("H1", "SKILL.md files, all alive after", len(corpus), len(corpus) * late)
        yield from _sampled("H1", "while they are read", seen)
        ready = _get(started, "/health")
        yield Outcome("H1", "/health is ready, the good skill found", 1, _is_well(started, ready))


def _written_by_hand() -> list[tuple[str, bytes]]:
    """Every kind of malice that somebody thought of: a path, and what stands there."""
    tags = ("!!bool x", "!!int ''", "!!float ''", "!!timestamp x", "!!binary '%'", "!!set x")
    objects = ("!!python/object/apply:os.system [id]", "!!python/name:os.system", "!x y", "!!a b")
    fields = [*tags, *objects, "*a", "&a x", "[" * 8000, "{a: " * 3000, "? " * 7000, "- " * 7000]
    merges = [f"b{n}: &b{n} {{<<: [{', '.join([f'*b{n - 1}'] * 9)}]}}" for n in range(1, 10)]
    laughs = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    fields += [f"x\n{chr(10).join(lines)}" for lines in (merges, laughs)]
    found = [(f"field{n}/SKILL.md", _front(each)) for n, each in enumerate(fields)]
    heads = (" \t" * 400_000, "#" * 900_000, " #" * 400_000, "a " * 400_000)
    bodies = [f"# x{head}y\n\ntext" for head in heads]
    bodies += ["# a\n\ntext\n" * 60_000, "```\n" * 200_000, "\n \n" * 300_000, "x" * 1_000_000]
    bodies += [" " * 1_000_000 + "x", "\u202e" * 300_000, "é" * 500_000, ". " * 500_000]
    found += [(f"body{n}.md", each.encode()[: 1024**2]) for n, each in enumerate(bodies)]
    found += [("huge.md", b"x" * 5_000_000), ("nul.md", b"a\0b"), ("latin.md", b"\xe4\xf6")]
    names = ("evil\n\x1b[31m.md", "\u202egnp.exe.md", "<img src=x>.md", "a" * 250 + ".md", " .md")
    return found + [(name, b"Cut the hedge in June.") for name in names]


def _front(description: str) -> bytes:
    return f"---\nname: bad\ndescription: {description}\n---\nbody\n".encode()


def _mutated(chance: random.Random, number: int) -> list[tuple[str, bytes]]:
    """A good file with bytes changed, put in and taken out, of those that mean something."""
    marks = b"-:#&*!<>{}[]|?%@'\"`\\ \t\n\0\xff\xe2\x80\xae0a"
    found: list[tuple[str, bytes]] = []
    for at in range(number):
        text = bytearray(_GOOD.encode() * chance.randint(1, 3))
        for _ in range(chance.randint(1, 12)):
            place = chance.randrange(len(text))
            some = bytes(chance.choices(marks, k=chance.choice((1, 1, 2, 5, 300))))
            text[place : place + chance.randint(0, 2)] = some
        found.append((f"mutant{at}/SKILL.md", bytes(text)))
    return found


def _put(roots: Path, files: list[tuple[str, bytes]], at: int, *, plain: bool = False) -> None:
    """Write some of the corpus, in a folder of its own."""
    for path, data in files:
        file = roots / (path if plain else f"batch{at}/{path}")
        file.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # a name that this file system does not take
            file.write_bytes(data)


def _await_skills(started: Started) -> None:
    """Until what was written a moment ago is looked at and indexed."""
    with suppress(OSError, ValueError):
        _post(started, "/skills/update")


def _skill_names(started: Started) -> list[str]:
    return [each["name"] for each in _get(started, "/skills").get("skills", ())]


def _is_well(started: Started, health: dict[str, Any]) -> int:
    """1 where the gateway says that it is well, and is."""
    tasks = set(health.get("tasks", {"": ""}).values())
    found = _get(started, "/skills/search?q=water+the+lawn").get("results", [])
    return int(health.get("status") == "ready" and tasks == {"running"} and bool(found))


# Configurations


def _configurations(effort: Effort, chance: random.Random) -> Iterator[Outcome]:
    """The file that is followed says nonsense; then it is good again, and that is followed."""
    corpus = [*_nonsense(), *_damaged(chance, effort.times(40))]
    with _running() as (folder, started):
        good = (folder / "config.json").read_text("utf-8")
        with _Sampler(started, folder) as seen:
            for text in corpus:
                (folder / "config.json").write_bytes(text)
                time.sleep(0.3)  # a look
            write(folder / "config.json", good.replace('"s"', '"other"'))
            held = _until(lambda: "other" in _server_names(started))
        tried = len(corpus)
        yield Outcome("H1", "configurations, the last good one followed", tried, tried * held)
        yield from _sampled("H1", "while they are read", seen, calls=False)


def _nonsense() -> list[bytes]:
    objects: list[Any] = [
        *([], "x", 1, None, {"mcpServers": []}, {"mcpServers": {"s": 1}}, {"mcpServers": {"": {}}}),
        {"mcpServers": {"s": {"command": "\0"}}},
        {"mcpServers": {"\ud800": {"command": "x", "args": ["\ud800"]}}},
        {"mcpServers": {"s": {"command": "x", "env": {"A\0": "\0"}, "cwd": "\0"}}},
        {"mcpServers": {"s": {"url": "http://[::1"}}},
        {"mcpServers": {"s": {"url": "http://x:99999999/"}}},
        {"mcpServers": {}, "skills": ["\0", "\ud800", "x" * 5000]},
        {"mcpServers": {}, "skills": {"a": 1}},
    ]
    deep = b'{"a":' * 100_000
    others = [deep, b"[" * 100_000, b"9" * 10_000, b"", b"\xff"]
    return [*(json.dumps(each).encode() for each in objects), *others]


def _damaged(chance: random.Random, number: int) -> list[bytes]:
    good = json.dumps({"mcpServers": {"s": {"command": "none", "args": ["-x"]}}}).encode()
    found: list[bytes] = []
    for _ in range(number):
        text = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            text[chance.randrange(len(text))] = chance.randrange(256)
        found.append(bytes(text))
    return found


def _server_names(started: Started) -> list[str]:
    return [each["name"] for each in _get(started, "/servers").get("servers", ())]


# Tasks that die


def _deaths(effort: Effort) -> Outcome:
    """A library fails in one task: the process says so and ends, its servers before it."""
    times = effort.times(6)
    ends: list[float] = []
    for _ in range(times):
        with _folder() as folder:
            took = _death(folder)
            if took is not None and not living(folder):
                ends.append(took)
    figure = f"ended after {max(ends, default=0):.1f} s at most"
    return Outcome("H1", "a task dies: 503, exit code 1, nothing left", times, len(ends), figure)


def _death(folder: Path) -> float | None:
    """How long one takes to end; None where something was not as it should be."""
    (folder / "watchfiles.py").write_text(_WATCHFILES, "utf-8")
    configure(folder, {"s": scripted(tools=[_TOOL], tag=str(folder), stubborn=True)})
    command = [sys.executable, "-m", "toolscript", "gateway", "start", "--foreground"]
    env = {**_environ(folder), "PYTHONPATH": str(folder), "FAILS": str(folder / "fails")}
    with subprocess.Popen([*command, "--port", "0"], env=env, stderr=subprocess.DEVNULL) as process:
        try:
            _until(lambda: bool([*folder.glob("run/gateway-*.json")]))
            started = _started(folder)
            _until(lambda: _get(started, "/health").get("status") == "ready")
            began = time.monotonic()
            (folder / "fails").touch()
            said = _until(lambda: _get(started, "/health").get("status") == "failed")
            code = process.wait(_PATIENCE_S)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return None
        finally:
            process.kill()
    return time.monotonic() - began if said and code == 1 else None


# A locked disk


def _locks(effort: Effort) -> Outcome:
    """Calls go on while another program holds the graph's file; in the end all are on the disk."""
    calls = effort.times(200)
    with _running() as (folder, started):
        _post(started, "/tools/s__ping")
        [path] = _awaited(lambda: [*folder.rglob("graph-*.sqlite")])
        answered = 1
        for round_ in range(4):
            with closing(sqlite3.connect(path, isolation_level=None)) as db:
                db.execute("begin exclusive" if round_ % 2 else "begin immediate")
                for _ in range(calls // 4):
                    answered += "content" in _post(started, "/tools/s__ping")
                time.sleep(6)  # longer than the gateway waits
            answered += "content" in _post(started, "/tools/s__ping")
            time.sleep(1.5)
        kept = _calls_in(path)
    return Outcome("M15", "calls learned although the disk was locked", answered, kept)


def _calls_in(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("select coalesce(sum(times + failures), 0) from tool").fetchone()[0])


# What is seen meanwhile


@dataclass
class _Sampler:
    """Asks and calls from a thread of its own, and notes how that went."""

    started: Started
    folder: Path
    answers: int = 0
    failures: list[str] = field(default_factory=list[str])
    slowest_ms: float = 0.0
    blocked: int = 0
    _ends: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        _text(self.started, "/metrics")  # from now on the loop is watched
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        if self._thread is not None:
            self._thread.join()
        with suppress(OSError, KeyError, ValueError):
            self.blocked = lag(_text(self.started, "/metrics"))["blocked"]

    @property
    def peak_mib(self) -> float:
        """The most memory that the process ever had."""
        with suppress(OSError):
            for line in Path(f"/proc/{self.started.pid}/status").read_text("utf-8").splitlines():
                if line.startswith("VmHWM"):
                    return int(line.split()[1]) / 1024
        return 0.0

    def _sample(self) -> None:
        while not self._ends.wait(0.02):
            try:
                began = time.perf_counter()
                health = _get(self.started, "/health")
                self.slowest_ms = max(self.slowest_ms, (time.perf_counter() - began) * 1000)
                called = _post(self.started, "/tools/s__ping") if "s" in self._servers() else {}
            except (OSError, ValueError, http.client.HTTPException) as error:
                self.failures.append(repr(error))
                continue
            self.answers += 1
            if health.get("status") == "failed" or "error" in called:
                self.failures.append(str(called or health))

    def _servers(self) -> list[str]:
        return _server_names(self.started) if self.answers % 10 == 0 else ["s"]


def _sampled(finding: str, when: str, seen: _Sampler, *, calls: bool = True) -> Iterator[Outcome]:
    tried, failed = seen.answers + len(seen.failures), len(seen.failures) if calls else 0
    figure = f"peak {seen.peak_mib:.0f} MiB, /health {seen.slowest_ms:.0f} ms at most"
    yield Outcome(finding, f"/health and a call {when}", tried, tried - failed, figure)
    late = f"{seen.blocked} times over {BLOCKED_S * 1000:.0f} ms"
    yield Outcome(finding, f"the event loop is not held {when}", 1, int(not seen.blocked), late)


# Gateways


@contextmanager
def _folder() -> Generator[Path]:
    """One with a good skill, which is removed in the end."""
    with tempfile.TemporaryDirectory(prefix="attack-", ignore_cleanup_errors=True) as name:
        skill = Path(name) / "home" / ".claude" / "skills" / "lawn" / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text(_GOOD, "utf-8")
        yield Path(name)


@contextmanager
def _running() -> Generator[tuple[Path, Started]]:
    """A gateway over one server."""
    with _folder() as folder:
        configure(folder, {"s": scripted(tools=[_TOOL], tag=str(folder))})
        with gateway(folder, HOME=str(folder / "home"), **_SETTINGS) as started:
            yield folder, started


def _environ(folder: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TOOLSCRIPT_")}
    own = {"TOOLSCRIPT_DATA_DIR": str(folder), "TOOLSCRIPT_CONFIG": str(folder / "config.json")}
    return {**kept, **own, **_SETTINGS, "HOME": str(folder / "home")}


def _started(folder: Path) -> Started:
    record = json.loads(next(folder.glob("run/gateway-*.json")).read_text("utf-8"))
    return Started(record["url"], record["pid"])


def _until(probe: Callable[[], bool]) -> bool:
    """Whether it comes true in time."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(OSError, ValueError, http.client.HTTPException):
            if probe():
                return True
        time.sleep(0.02)
    return False


def _awaited(probe: Callable[[], list[Path]]) -> list[Path]:
    _until(lambda: bool(probe()))
    return probe()


def _get(started: Started, path: str) -> dict[str, Any]:
    return json.loads(_text(started, path))


def _post(started: Started, path: str) -> dict[str, Any]:
    return json.loads(_text(started, path, "POST", b"{}"))


def _text(started: Started, path: str, method: str = "GET", body: bytes | None = None) -> str:
    parts = urlsplit(started.url)
    with closing(
        http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_PATIENCE_S)
    ) as connection:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        return connection.getresponse().read().decode()
