"""What sessions of MCP clients cost: processes, memory, and time to the first answer.

    python -m benchmarks.sessions --servers .servers/servers.json [--sessions 1 5 20]
        [--peers FOLDER] [--kills 20] [--pairs 100] [--json FILE]

Each session is a client over standard input and output, which opens a session, lists the
tools (the first answer), searches where that is possible, and calls one tool. These are the ways:

- *bridge*: ``toolscript mcp``, which shares one gateway;
- *alone*: ``toolscript mcp --alone``, a gateway in each session;
- *direct*: every configured server is started by each session, as clients do by themselves;
- *fastmcp*: ``fastmcp run``, a proxy in each session that starts every server;
- *mcp-proxy*: one proxy with every server, which each session uses over HTTP, one session for
  each server. It and ``fastmcp`` are programs in the folder ``--peers``.

Memory is the proportional set size (shared pages counted once) of all processes. All but the
bridge and mcp-proxy are measured up to ``--most`` sessions: twenty would need more memory than most
machines have.

``--pairs``: how long a call takes through the bridge and straight to a server of its own, in turns;
a tenth as often how long the first call takes that starts a server, and the start of a session.

``--kills``: the gateway is killed so many times under five bridges that call a counting server;
every call has to be made at most once, and none may get lost without an error that says so.
Linux only.
"""

import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeAlias

import httpx2
from tests.gateways import SCRIPTED

from benchmarks import report
from benchmarks.arguments import Parser

WAYS = ("bridge", "alone", "direct", "fastmcp", "mcp-proxy")
SHARED = {"bridge", "mcp-proxy"}
"""The ways in which sessions have servers in common."""
KILLED_SESSIONS = 5
_PROGRAM = [sys.executable, "-P", "-m", "toolscript"]
_VERSION = "2025-06-18"
_PATIENCE_S = 240.0
_TIME: dict[str, Any] = {"name": "get_current_time", "arguments": {"timezone": "UTC"}}

_Seconds: TypeAlias = tuple[float, float]
"""Until the tools are listed, and from then until the first call is answered."""


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
        how = "read_tool" if tool.startswith("time:") else "call_destructive_tool"
        return self.ask("tools/call", name=how, arguments=given)

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
        self.config.write_text(json.dumps({"mcpServers": self.servers}), "utf-8")

    @property
    def config(self) -> Path:
        """The file with the servers."""
        return self.folder / ".toolscript.json"

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
        for path in sorted(Path("/proc").glob("[0-9]*"), key=lambda each: int(each.name)):
            try:
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                is_ours = mark in (path / "environ").read_bytes().split(b"\0")
                if is_ours or parent in found:  # what ends the servers has no environment
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
        if way in SHARED or count <= arguments.most
        if way in _WAYS or (arguments.peers / way).exists()
    ]
    rows = [_measured(way, count, servers, arguments.peers) for way, count in cases]
    columns = [
        "way",
        "sessions",
        "processes",
        "MiB",
        "first answer s",
        "first call s",
        "after the end",
    ]
    report.table(columns, [[str(value) for value in row.values()] for row in rows])
    delays = _delays(servers, arguments.pairs) if arguments.pairs else None
    if delays:
        shown = [[what, *map(str, row.values())] for what, row in delays.items()]
        print()
        report.table(["milliseconds, median", "bridge", "direct", "difference"], shown)
    killed = _killed(arguments.kills) if arguments.kills else None
    if killed:
        print(f"\nkills: {killed}")
    found = {"sessions": rows, "delays": delays, "kills": killed}
    report.write(arguments.json, {"meta": report.meta(), **found})
    return bool(killed and killed["wrong"])


def _arguments() -> Any:
    parser = Parser(prog="python -m benchmarks.sessions", description=__doc__)
    parser.add_argument("--servers", type=Path, required=True, metavar="FILE")
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 5, 20])
    parser.add_argument("--most", type=int, default=5, help="sessions without a shared gateway")
    parser.add_argument("--peers", type=Path, default=Path(".peers/bin"), metavar="FOLDER")
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_json()
    return parser.parse_args()


def _measured(way: str, count: int, servers: dict[str, Any], peers: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="toolscript-sessions-") as name:
        place = Place(Path(name), servers)
        if way in {"bridge", "alone"}:
            place.run("search", "anything")  # the tools become known, as at any but the first time
        with ExitStack() as stack, ThreadPoolExecutor(count) as pool:
            begin = _WAYS.get(way) or partial(_fastmcp, peers)
            if way == "mcp-proxy":
                url = stack.enter_context(_mcp_proxy(peers, place))
                begin = partial(_over_http, url)
            waiting = [pool.submit(begin, place, stack) for _ in range(count)]
            seconds = [each.result(_PATIENCE_S) for each in waiting]
            opened, called = zip(*seconds, strict=True)
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
        "first_answer_s": round(statistics.median(opened), 2),
        "first_call_s": round(statistics.median(called), 2),
        "left": left,
    }


def _wait_for_end(place: Place) -> None:
    """Wait until no process of a place is left, so that its folder can be removed."""
    deadline = time.monotonic() + 30
    while place.processes() and time.monotonic() < deadline:
        time.sleep(0.1)


def _toolscript(place: Place, stack: ExitStack, *options: str) -> _Seconds:
    begun = time.perf_counter()
    client = stack.enter_context(place.client(*_PROGRAM, "mcp", *options))
    client.open()
    opened = time.perf_counter()
    client.ask("tools/call", name="search_tools", arguments={"query": "what time is it"})
    client.call("time:get_current_time", timezone="UTC")
    return opened - begun, time.perf_counter() - opened


def _toolscript_alone(place: Place, stack: ExitStack) -> _Seconds:
    return _toolscript(place, stack, "--alone")


def _direct(place: Place, stack: ExitStack) -> _Seconds:
    begun = time.perf_counter()
    clients = [
        stack.enter_context(
            place.client(entry["command"], *entry.get("args", ()), env=entry.get("env", {}))
        )
        for entry in place.servers.values()
    ]
    for client in clients:
        client.open()
    opened = time.perf_counter()
    chosen = clients[list(place.servers).index("time")]
    chosen.ask("tools/call", **_TIME)
    return opened - begun, time.perf_counter() - opened


_WAYS: dict[str, Callable[[Place, ExitStack], _Seconds]] = {
    "bridge": _toolscript,
    "alone": _toolscript_alone,
    "direct": _direct,
}


def _fastmcp(peers: Path, place: Place, stack: ExitStack) -> _Seconds:
    begun = time.perf_counter()
    command = (str(peers / "fastmcp"), "run", str(place.config), "--no-banner")
    client = stack.enter_context(place.client(*command))
    client.open()
    opened = time.perf_counter()
    client.ask("tools/call", **{**_TIME, "name": "time_get_current_time"})
    return opened - begun, time.perf_counter() - opened


@contextmanager
def _mcp_proxy(peers: Path, place: Place) -> Generator[str]:
    """The program with every server, once it listens; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [str(peers / "mcp-proxy"), "--named-server-config", str(place.config)]
    command += ["--port", port, "--pass-environment"]
    environ = place.environ
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=environ, stdout=quiet, stderr=quiet) as process:
        try:
            deadline = time.monotonic() + _PATIENCE_S
            while time.monotonic() < deadline:
                with suppress(OSError), socket.create_connection(("127.0.0.1", int(port)), 1):
                    break
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/servers"
        finally:
            process.terminate()


def _over_http(url: str, place: Place, stack: ExitStack) -> _Seconds:
    """A session with each server behind one proxy."""
    begun = time.perf_counter()
    accepted = {"Accept": "application/json, text/event-stream"}
    http = stack.enter_context(httpx2.Client(timeout=_PATIENCE_S, headers=accepted))

    def ask(server: str, method: str, session: str, **params: Any) -> httpx2.Response:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        if method.startswith("notifications/"):
            del message["id"]
        headers = {"Mcp-Session-Id": session} if session else {}
        return http.post(f"{url}/{server}/mcp/", json=message, headers=headers).raise_for_status()

    who = {"name": "benchmark", "version": "1"}
    sessions: dict[str, str] = {}
    for server in place.servers:
        hello = {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": who}
        answer = ask(server, "initialize", "", **hello)
        sessions[server] = answer.headers["mcp-session-id"]
        ask(server, "notifications/initialized", sessions[server])
        ask(server, "tools/list", sessions[server])
    opened = time.perf_counter()
    ask("time", "tools/call", sessions["time"], **_TIME)
    return opened - begun, time.perf_counter() - opened


def _delays(servers: dict[str, Any], pairs: int) -> dict[str, dict[str, float]]:
    """Milliseconds through the bridge and directly, by what is done; both take turns."""
    entry = servers["time"]
    direct = (entry["command"], *entry.get("args", ()))
    warm: list[tuple[float, float]] = []
    first: list[tuple[float, float]] = []
    begun: list[tuple[float, float]] = []
    settings = {"TOOLSCRIPT_IDLE_TIMEOUT": "0.5"}
    with tempfile.TemporaryDirectory(prefix="toolscript-delays-") as name:
        place = Place(Path(name), {"time": entry}, settings)
        place.run("list-tools")
        with place.client(*_PROGRAM, "mcp") as bridge:
            bridge.open()
            for _ in range(max(1, pairs // 10)):
                time.sleep(2)  # the server has been stopped meanwhile
                through = _timed(lambda: bridge.call("time:get_current_time", timezone="UTC"))
                with ExitStack() as stack:
                    alone = _timed(lambda stack=stack: _first_call(place, direct, stack))
                first.append((through, alone))
                with ExitStack() as stack:
                    session = _timed(lambda stack=stack: _opened(place, stack))
                bare = _timed(lambda: subprocess.run([sys.executable, "-c", ""], check=True))
                begun.append((session, bare))
            with place.client(*direct) as own:
                own.open()
                for _ in range(pairs):
                    alone = _timed(lambda: own.ask("tools/call", **_TIME))
                    through = _timed(lambda: bridge.call("time:get_current_time", timezone="UTC"))
                    warm.append((through, alone))
        place.run("gateway", "stop")
        _wait_for_end(place)
    return {
        "a call": _medians(warm),
        "the first call, with the start of the server": _medians(first),
        "the start of a session; beside it a bare interpreter": _medians(begun),
    }


def _first_call(place: Place, command: Sequence[str], stack: ExitStack) -> None:
    client = stack.enter_context(place.client(*command))
    client.open()
    client.ask("tools/call", **_TIME)


def _opened(place: Place, stack: ExitStack) -> None:
    client = stack.enter_context(place.client(*_PROGRAM, "mcp"))
    who = {"name": "benchmark", "version": "1"}
    client.ask("initialize", protocolVersion=_VERSION, capabilities={}, clientInfo=who)


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


def _medians(pairs: Sequence[tuple[float, float]]) -> dict[str, float]:
    return {
        "bridge": round(statistics.median(one for one, _ in pairs), 2),
        "direct": round(statistics.median(other for _, other in pairs), 2),
        "difference": round(statistics.median(one - other for one, other in pairs), 2),
    }


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
