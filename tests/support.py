"""What the integration tests share: helper servers, an application under way, the command line.

Everything here runs the real program: processes that are started for a test and
sockets of this machine. Nothing is replaced.
"""

import contextlib
import hashlib
import http.client
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import urlencode, urlsplit

from anyio.from_thread import start_blocking_portal

from tests import launcher
from toolscript.bootstrap import Wiring, application
from toolscript.config import servers as configuration
from toolscript.config import settings
from toolscript.config.trust import ProjectFile, TrustStore
from toolscript.embedding.loader import LazyModel, Loaded
from toolscript.gateway.definitions.pins import DefinitionPins
from toolscript.graph.base import Edge
from toolscript.graph.tool_graph import ToolGraph
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.skills.folders import AddedFolders, SkillFolders
from toolscript.skills.service import SkillService
from toolscript.skills.skill_feed import SkillFeed
from toolscript.testing import InProcessClient, tool
from toolscript.types import ServerStatus


def unused_pins() -> DefinitionPins:
    """Returns pins for a gateway whose upstreams are not asked for their tools' definitions."""
    return DefinitionPins(Path("no-such-folder"), "unused")


ROOT = Path(__file__).resolve().parent.parent
HELPERS = ROOT / "tests" / "servers"
PATIENCE_S = 60.0
"""How long anything may take before a test says that it hangs."""
FUZZY = {
    "TOOLSCRIPT_SEARCH_MODEL": "ollama://127.0.0.1:1/none-such",  # refuses connections
    "TOOLSCRIPT_SEARCH_FALLBACK": "fuzzy",
}
"""No model: for tests in which finding a tool by its name is enough."""

FEW_DESCRIPTORS = ("sh", "-c", 'ulimit -n 256; exec "$@"', "sh")
"""A command that starts the one that follows it with so many."""
NO_HUB = {"TOOLSCRIPT_SEARCH_MODEL": "bundled", "HF_HUB_OFFLINE": "1"}
"""Nothing is downloaded: what a test does not ask for does not reach for the network."""

_T = TypeVar("_T")
Entry = dict[str, Any]
"""One server of a configuration."""


def until(probe: Callable[[], _T | None], what: str, patience_s: float = PATIENCE_S) -> _T:
    """Ask until the answer is true, and return it; fail after a while."""
    deadline = time.monotonic() + patience_s
    while not (value := probe()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience_s:g} s: {what}")
        time.sleep(0.01)
    return value


READ_FILE = tool("read_file", "Read the contents of a file from disk")
WRITES = {"annotations": {"destructiveHint": False}}
"""What makes a tool one that nobody is asked about."""
SEND_MAIL = tool("send_mail", "Send an e-mail message to somebody")


def child_processes(parent: int) -> dict[int, str]:
    """The living processes that a process has started itself: id to command line."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,stat=,args="],  # noqa: S607 - as POSIX has it
        capture_output=True,
        text=True,
        errors="replace",
        check=True,
    ).stdout
    rows = (line.split(None, 3) for line in listed.splitlines())
    return {
        int(row[0]): row[3]
        for row in rows
        if len(row) == 4 and int(row[1]) == parent and not row[2].startswith("Z")
    }


def processes(marker: str) -> dict[int, str]:
    """The living processes with ``marker`` among their arguments: id to command line."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,stat=,args="],  # noqa: S607 - as POSIX has it
        capture_output=True,
        text=True,
        errors="replace",
        check=True,
    ).stdout
    rows = (line.split(None, 2) for line in listed.splitlines())
    return {
        int(row[0]): row[2]
        for row in rows
        if len(row) == 3 and marker in row[2] and not row[1].startswith("Z")
    }


def kill_all(pids: Iterable[int]) -> None:
    """End processes that the test started, whatever they are doing."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def alive(pid: int) -> bool:
    """Whether a process runs (one that only waits for its parent to notice does not)."""
    asked = ["ps", "-o", "stat=", "-p", str(pid)]
    state = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return bool(state) and not state.startswith("Z")


def stop_all(pids: Iterable[int]) -> None:
    """End gateways that the test started, politely as long as that helps."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
            with contextlib.suppress(AssertionError):
                until(lambda pid=pid: not alive(pid), "the gateway has ended", 15)
            os.kill(pid, signal.SIGKILL)


class Scripted:
    """Makes configuration entries for ``servers/scripted.py``; see there for what it can do."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(self, *tools: object, env: dict[str, str] | None = None, **will: Any) -> Entry:
        """A server with these tools. Its arguments name the test's directory, to be found by."""
        will = {"tools": list(tools), "tag": str(self.directory), **will}
        args = ["-S", "-E", str(HELPERS / "scripted.py"), json.dumps(will)]
        entry: Entry = {"command": sys.executable, "args": args}
        return entry | ({"env": env} if env else {})


def write_config(path: Path, servers: Mapping[str, Any]) -> Path:
    """A configuration file with these servers."""
    path.write_text(json.dumps({"mcpServers": servers}), "utf-8")
    return path


def trust(data_dir: Path, *files: Path) -> TrustStore:
    """What ``toolscript trust`` does with these files."""
    store = TrustStore(data_dir)
    for file in files:
        store.decide(ProjectFile.read(file), trusted=True)
    return store


def no_skills(folder: Path) -> SkillService:
    """A skill service that looks for nothing."""
    engine = SearchEngine(search_profile(0.7, 3, 0.35))
    model = LazyModel(lambda: Loaded(None, "no model"))
    folders = SkillFolders(AddedFolders(folder / "folders.json"), [])
    semantic = SemanticSignal(model, lambda: None)
    return SkillService(engine, semantic, SkillFeed(folders, mode="off"))


def in_database(url: str) -> dict[str, str]:
    """The variables that have a gateway keep its state in a database."""
    return {"TOOLSCRIPT_DATABASE": url, "TOOLSCRIPT_SECRET_KEY": "k" * 32}


# Tokens


def create_token(cli: "Cli", *arguments: str) -> dict[str, Any]:
    """What ``toolscript token create`` says; a gateway that runs takes the token from now on."""
    made = cli.json("token", "create", *arguments)
    until_known(cli, made["token"])
    return made


def until_known(cli: "Cli", token: str) -> None:
    """Wait until a new token counts: at once with files, within a second with a database."""
    if cli.storage and cli.records:
        until(lambda: _statuses(cli, "", token) == [401, 200], "the gateway knows the token")


def revoke_token(cli: "Cli", identifier: str, token: str) -> str:
    """Revoke a token, and return what is said; it counts no more when this returns."""
    done = cli("token", "revoke", identifier)
    assert done.stdout == "revoked\n"
    if cli.storage:
        until(lambda: _statuses(cli, token) == [401], "the token counts no more")
    return done.stderr


def _statuses(cli: "Cli", *tokens: str) -> list[int]:
    """How a gateway answers the holders of these tokens; an empty one is not shown."""
    shown = ({"Authorization": f"Bearer {token}"} if token else {} for token in tokens)
    return [fetch(cli.record()["url"], "/tools", headers=headers)[0] for headers in shown]


# An application in this process


class Running(InProcessClient):
    """The client of ``toolscript.testing``, with what only these tests look at."""

    def statuses(self) -> dict[str, ServerStatus]:
        """Every server's status by its name."""
        return {status.name: status for status in self.servers()}

    def status(self, name: str) -> ServerStatus:
        """One server's status."""
        return self.statuses()[name]

    def wait_for(self, name: str, state: str, patience_s: float = PATIENCE_S) -> ServerStatus:
        """A server's status as soon as it is in this state."""

        def probe() -> ServerStatus | None:
            status = self.status(name)
            return status if status.state == state else None

        try:
            return until(probe, f"{name} is {state}", patience_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {self.status(name)}") from None

    def settle(self) -> None:
        """Wait until every server is ready or failed, and all that is known is indexed."""
        until(lambda: self.portal.call(self.app.health).ready, "every server has settled")

    def tool_ids(self, server: str | None = None) -> list[str]:
        """The ids of the tools."""
        return [spec.id for spec in self.tools(server)]

    def finds(self, text: str, **more: Any) -> list[str]:
        """The ids that a search finds."""
        return [hit.document.id for hit in self.search(text, **more).hits]


@contextmanager
def running(
    config: Path, environ: Mapping[str, str] | None = None, wiring: Wiring | None = None
) -> Generator[Running]:
    """An application over a configuration file, its data beside that file."""
    home = {"HOME": str(config.parent), "TOOLSCRIPT_DATA_DIR": str(config.parent / "data")}
    environ = {**FUZZY, **home, "TOOLSCRIPT_CONFIG": str(config), **(environ or {})}
    found = configuration.load_config(config, config.parent, environ)
    app = application(settings.load_settings({}, environ), found, wiring, environ)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(app.running()):
        yield Running(app, portal)


def date_pins(file: Path, time: str) -> None:
    """Rewrite what was accepted of a server as if that had been at a time, by an older version."""
    content = json.loads(file.read_bytes())["content"]
    for pin in content["pins"].values():
        pin["since"] = time
        del pin["first"]
    raw = json.dumps(content)
    digest = hashlib.sha256(raw.encode()).hexdigest()
    file.write_text(f'{{"sha256": "{digest}", "content": {raw}}}', "utf-8")


# The command line


@dataclass
class Cli:
    """Runs ``toolscript`` as a process, with an environment that holds nothing of ours."""

    home: Path
    env: dict[str, str] = field(default_factory=dict[str, str])
    storage: Mapping[str, str] = field(default_factory=dict[str, str])
    """The variables that name a shared database; none where everything is in files."""
    patience_s: float = PATIENCE_S
    """How long a command may take."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Stops its gateways, which leave no process."""
        stop_all(json.loads(path.read_text("utf-8"))["pid"] for path in self.records)
        until(lambda: not processes(str(self.home)), "no process is left", 15)

    def __call__(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        given: str = "",
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; ``given`` is its standard input."""
        environ = self.environment(env)
        return launcher.run(arguments, cwd or self.home, environ, self.patience_s, given)

    @staticmethod
    def command(*arguments: str) -> list[str]:
        """The words of a command."""
        return [sys.executable, "-m", "toolscript", *arguments]

    def behind(self, before: Sequence[str], *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command by another one, which prepares its place."""
        return subprocess.run(
            [*before, *self.command(*arguments)],
            env=self.environment(),
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=self.patience_s,
            check=False,
        )

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """A clean environment: a home directory, the path, and what the test asks for."""
        own = {"HOME": str(self.home), "PATH": os.environ["PATH"], **NO_HUB}
        return {**own, **self.storage, **self.env, **(more or {})}

    def configure(self, **servers: Any) -> Path:
        """Write ``.toolscript.json`` into the home directory."""
        return write_config(self.home / ".toolscript.json", servers)

    def json(self, *arguments: str, env: Mapping[str, str] | None = None) -> Any:
        """What a command that succeeds prints as JSON."""
        done = self(*arguments, "--output", "json", env=env)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def start_gateway(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        """Start a gateway on a free port that admits programs without a token; return its URL."""
        done = self("gateway", "start", "--open", "--port", "0", *arguments, env=env)
        assert done.returncode == 0, done.stderr
        return self.record()["url"]

    @property
    def records(self) -> list[Path]:
        """The notes that gateways have left."""
        return sorted(self.home.rglob("run/gateway-*.json"))

    def record(self) -> dict[str, Any]:
        """What the one gateway has noted about itself."""
        [path] = self.records
        return json.loads(path.read_text("utf-8"))


def on_a_terminal(
    cli: Cli,
    *arguments: str,
    watch: Callable[[bytes], object] = len,
    columns: int = 100,
    code: int = 0,
) -> str:
    """What a command shows on a terminal; ``watch`` sees it as it grows."""
    main, side = pty.openpty()
    env = cli.environment({"TERM": "xterm", "COLUMNS": str(columns)})
    command = cli.command(*arguments)
    with subprocess.Popen(command, env=env, cwd=cli.home, stdout=side, stderr=side) as process:
        os.close(side)
        shown = b""
        while data := _read(main):
            shown += data
            watch(shown)
        process.wait(30)
    os.close(main)
    assert process.returncode == code
    return shown.decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""  # how Linux says that the other side is closed


def post(url: str, path: str, value: Any) -> tuple[int, Any]:
    """Send JSON over a socket: the status, and the answer."""
    headers = {"Content-Type": "application/json"}
    return fetch(url, path, method="POST", headers=headers, body=json.dumps(value).encode())


def fetch(  # noqa: PLR0913 - as many as a request has parts
    url: str,
    path: str,
    parameters: Mapping[str, object] | None = None,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> tuple[int, Any]:
    """Ask over a socket: the status, and the answer (as text where it is not JSON)."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_S)
    try:
        target = f"{path}?{urlencode(parameters)}" if parameters else path
        connection.request(method, target, body, dict(headers or {}))
        response = connection.getresponse()
        received = response.read().decode()
        kind = response.headers.get("content-type", "")
        return response.status, json.loads(received) if "json" in kind else received
    finally:
        connection.close()


def edge_of(graph: ToolGraph, source: str, target: str) -> Edge | None:
    """An edge of a graph; None where there is none."""
    edges = graph.strongest(graph.edge_count)
    return next((e for e in edges if (e.source, e.target) == (source, target)), None)
