"""What sessions of MCP clients cost: processes, memory, and time to the first answer.

    python -m benchmarks.sessions --servers .servers/servers.json [--sessions 1 5 20]
        [--kills 20] [--json FILE]

Each session is a client over standard input and output, which opens a session, lists the
tools, searches, and calls one tool. There are three ways:

- *bridge*: ``toolscript mcp``, which shares one gateway;
- *alone*: ``toolscript mcp --alone``, a gateway in each session;
- *direct*: every configured server is started by each session, as clients do by themselves.

Memory is the proportional set size (shared pages counted once) of all processes. Alone and direct
are measured up to ``--most`` sessions: twenty would need more memory than most machines have.

``--kills``: the gateway is killed so many times under five bridges that call a counting server;
every call has to be made at most once, and none may get lost without an error that says so.
Linux only.
"""

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from benchmarks import report
from benchmarks.arguments import Parser
from benchmarks.gateways import SCRIPTED

WAYS = ("bridge", "alone", "direct")
KILLED_SESSIONS = 5
_PROGRAM = [sys.executable, "-P", "-m", "toolscript"]
_VERSION = "2025-06-18"
_PATIENCE_S = 120.0


@dataclass
class Client:
    """A client over the pipes of a process."""

    process: "subprocess.Popen[bytes]"
    said: IO[bytes]
    """What the process writes on standard error."""
    number: int = 0

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The whole response to a request; what comes before it is passed over."""
        self.number += 1
        self._send({"id": self.number, "method": method, "params": params})
        for line in _pipe(self.process.stdout):
            message = json.loads(line)
            if message.get("id") == self.number and "method" not in message:
                return message
        self.said.seek(0)
        words = self.said.read().decode(errors="replace")[-500:]
        raise SystemExit(f"a session ended before it answered {method}: {words}")

    def open(self) -> None:
        """Open a session, and list the tools."""
        who = {"name": "benchmark", "version": "1"}
        self.ask("initialize", protocolVersion=_VERSION, capabilities={}, clientInfo=who)
        self._send({"method": "notifications/initialized"})
        self.ask("tools/list")

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The response to the call of a server's tool."""
        given = {"tool": tool, "arguments": arguments}
        return self.ask("tools/call", name="call_tool", arguments=given)

    def _send(self, message: dict[str, Any]) -> None:
        pipe = _pipe(self.process.stdin)
        pipe.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        pipe.flush()


@dataclass
class Place:
    """The folder of a measurement, in whose processes it is the home directory."""

    folder: Path
    servers: dict[str, Any]
    settings: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        text = json.dumps({"mcpServers": self.servers})
        (self.folder / ".toolscript.json").write_text(text, "utf-8")

    @property
    def environ(self) -> dict[str, str]:
        """The environment of every process."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("TOOLSCRIPT_")}
        return {**kept, "HOME": str(self.folder), "TOOLSCRIPT_PORT": "0", **self.settings}

    def run(self, *words: str) -> None:
        """Run a command to its end."""
        command = [*_PROGRAM, *words]
        done = subprocess.run(
            command, env=self.environ, cwd=self.folder, capture_output=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(words)} failed: {done.stderr.decode()[-500:]}")

    @contextmanager
    def client(self, *command: str, **more: Any) -> Generator[Client]:
        """A client of a process, which ends with the block."""
        pipe = subprocess.PIPE
        environ = {**self.environ, **more.get("env", {})}
        said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the stack of the block
        with (
            said,
            subprocess.Popen(
                command, env=environ, cwd=self.folder, stdin=pipe, stdout=pipe, stderr=said
            ) as process,
        ):
            try:
                yield Client(process, said)
            finally:
                _pipe(process.stdin).close()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()

    def gateway_pid(self) -> int:
        """The process id of the gateway; 0 where none has left a record."""
        for path in self.folder.glob(".toolscript/run/gateway-*.json"):
            return int(json.loads(path.read_text("utf-8"))["pid"])
        return 0

    def processes(self) -> dict[int, int]:
        """The proportional set size of every process of this place, in KiB, by its id."""
        mark = f"HOME={self.folder}".encode()
        found: dict[int, int] = {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (path / "environ").read_bytes().split(b"\0"):
                    rows = (path / "smaps_rollup").read_text().splitlines()
                    found[int(path.name)] = next(int(r.split()[1]) for r in rows if r[:4] == "Pss:")
            except (OSError, StopIteration):
                continue
        return found


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise SystemExit("a process has no pipes")
    return pipe


def main() -> int:
    """Measure, print, write; 1 if a check failed."""
    arguments = _arguments()
    servers = json.loads(arguments.servers.read_bytes())["mcpServers"]
    cases = [
        (way, count)
        for way in WAYS
        for count in arguments.sessions
        if way == "bridge" or count <= arguments.most
    ]
    rows = [_measured(way, count, servers) for way, count in cases]
    columns = ["way", "sessions", "processes", "MiB", "first answer s", "after the end"]
    report.table(columns, [[str(value) for value in row.values()] for row in rows])
    killed = _killed(arguments.kills) if arguments.kills else None
    if killed:
        print(f"\nkills: {killed}")
    report.write(arguments.json, {"meta": report.meta(), "sessions": rows, "kills": killed})
    return bool(killed and killed["wrong"])


def _arguments() -> Any:
    parser = Parser(prog="python -m benchmarks.sessions", description=__doc__)
    parser.add_argument("--servers", type=Path, required=True, metavar="FILE")
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 5, 20])
    parser.add_argument("--most", type=int, default=5, help="sessions without a shared gateway")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def _measured(way: str, count: int, servers: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="toolscript-sessions-") as name:
        place = Place(Path(name), servers)
        if way != "direct":
            place.run("search", "anything")  # the tools become known, as at any but the first time
        with ExitStack() as stack, ThreadPoolExecutor(count) as pool:
            begin = {"bridge": _toolscript, "alone": _toolscript_alone, "direct": _direct}[way]
            waiting = [pool.submit(begin, place, stack) for _ in range(count)]
            seconds = [each.result(_PATIENCE_S) for each in waiting]
            time.sleep(1)
            found = place.processes()
        left = len(place.processes())
        if place.gateway_pid():
            place.run("gateway", "stop")
        _wait_for_end(place)
    return {
        "way": way,
        "sessions": count,
        "processes": len(found),
        "MiB": round(sum(found.values()) / 1024),
        "first_answer_s": round(statistics.median(seconds), 2),
        "left": left,
    }


def _wait_for_end(place: Place) -> None:
    """Wait until no process of a place is left, so that its folder can be removed."""
    deadline = time.monotonic() + 30
    while place.processes() and time.monotonic() < deadline:
        time.sleep(0.1)


def _toolscript(place: Place, stack: ExitStack, *options: str) -> float:
    begun = time.perf_counter()
    client = stack.enter_context(place.client(*_PROGRAM, "mcp", *options))
    client.open()
    seconds = time.perf_counter() - begun
    client.ask("tools/call", name="search_tools", arguments={"query": "what time is it"})
    client.call("time:get_current_time", timezone="UTC")
    return seconds


def _toolscript_alone(place: Place, stack: ExitStack) -> float:
    return _toolscript(place, stack, "--alone")


def _direct(place: Place, stack: ExitStack) -> float:
    begun = time.perf_counter()
    clients = [
        stack.enter_context(
            place.client(entry["command"], *entry.get("args", ()), env=entry.get("env", {}))
        )
        for entry in place.servers.values()
    ]
    for client in clients:
        client.open()
    return time.perf_counter() - begun


def _killed(kills: int) -> dict[str, Any]:
    """Kill the gateway under bridges that call; what was made, refused, and what is wrong."""
    with tempfile.TemporaryDirectory(prefix="toolscript-kills-") as name:
        calls = Path(name) / "calls"
        script = {"tools": [{"name": "count", "inputSchema": {"type": "object"}}]}
        text = json.dumps({**script, "calls": str(calls), "slow": 0.05})
        entry = {"command": sys.executable, "args": ["-S", str(SCRIPTED), text]}
        place = Place(Path(name), {"s": entry}, {"TOOLSCRIPT_SEARCH_FALLBACK": "fuzzy"})
        place.run("list-tools")
        answered: set[str] = set()
        unknown: set[str] = set()
        ended: list[bool] = []
        with ExitStack() as stack, ThreadPoolExecutor(KILLED_SESSIONS) as pool:
            clients = [
                stack.enter_context(place.client(*_PROGRAM, "mcp")) for _ in range(KILLED_SESSIONS)
            ]
            calling = [
                pool.submit(_call_on, client, number, answered, unknown, lambda: bool(ended))
                for number, client in enumerate(clients)
            ]
            done = _kill(place, kills)
            ended.append(True)
            finished = sum(each.result(_PATIENCE_S) for each in calling)
        place.run("gateway", "stop")
        _wait_for_end(place)
        made = [json.loads(row)["arguments"]["at"] for row in calls.read_text().splitlines()]
    wrong = {
        "madeTwice": len(made) - len(set(made)),
        "answeredAndNotMade": len(answered - set(made)),
        "madeAndNotTold": len(set(made) - answered - unknown),
        "sessionsLost": KILLED_SESSIONS - finished,
    }
    return {
        "kills": done,
        "made": len(made),
        "answered": len(answered),
        "unknown": len(unknown),
        "wrong": {what: number for what, number in wrong.items() if number},
    }


def _call_on(
    client: Client,
    number: int,
    answered: set[str],
    unknown: set[str],
    is_over: Callable[[], bool],
) -> int:
    """Call until it is over; 1 where the session still answers then."""
    client.open()
    turn = 0
    while not is_over():
        turn += 1
        at = f"{number}-{turn}"
        response = client.call("s:count", at=at)
        result = response.get("result", {})
        (answered if "result" in response and not result.get("isError") else unknown).add(at)
    last = f"{number}-last"
    response = client.call("s:count", at=last)
    answered.add(last)
    return int("result" in response and not response["result"].get("isError"))


def _kill(place: Place, kills: int) -> int:
    chance = random.Random(7)  # noqa: S311 - no secret
    done, before = 0, 0
    deadline = time.monotonic() + 30 * kills + 60
    while done < kills and time.monotonic() < deadline:
        pid = place.gateway_pid()
        if pid in {0, before}:
            time.sleep(0.05)
            continue
        time.sleep(chance.uniform(1.0, 3.0))
        os.kill(pid, signal.SIGKILL)
        done, before = done + 1, pid
    time.sleep(3)
    return done


if __name__ == "__main__":
    sys.exit(main())
