"""Installs real third-party MCP servers and writes a client configuration for them.

The demo and the integration tests run against these servers. Each Python server lives in a
virtual environment of its own, because the servers need different versions of the MCP SDK. The
JavaScript ones run under Node, or under the Deno runtime that PyPI carries where there is no Node.
What gets installed is pinned in ``requirements/servers``.
"""

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

WINDOWS = os.name == "nt"
PINS = Path(__file__).resolve().parent.parent / "requirements" / "servers"
OLDEST_NODE = 20  # what the pinned packages ask for
STEP_TIMEOUT_S = 900
LAYOUT = "1"  # part of every stamp: raise it when an installation has to be made anew


class InstallError(Exception):
    """Something could not be installed; the message is one line for the user."""


@dataclass(frozen=True)
class Spot:
    """Where things go."""

    root: Path

    @property
    def workspace(self) -> Path:
        """The folder that servers may work in."""
        return self.root / "workspace"

    @property
    def repo(self) -> Path:
        """The git repository."""
        return self.workspace / "repo"

    @property
    def data(self) -> Path:
        """Databases and other state of servers."""
        return self.root / "data"

    @property
    def node(self) -> Path:
        """Where npm installs."""
        return self.root / "node"

    @property
    def deno_dir(self) -> Path:
        """Deno's cache of packages and compiled code."""
        return self.root / "deno"

    def venv(self, name: str) -> Path:
        """The virtual environment of one server."""
        return self.root / "venvs" / name

    def program(self, venv: str, name: str) -> Path:
        """An executable in a virtual environment."""
        folder = self.venv(venv) / ("Scripts" if WINDOWS else "bin")
        return folder / (f"{name}.exe" if WINDOWS else name)


@dataclass(frozen=True)
class Server:
    """One server: what to start, and with what arguments and environment."""

    name: str
    program: str  # the executable of a Python server, the npm package of a JavaScript one
    args: Callable[[Spot], list[str]] = field(default=lambda _spot: [])
    env: Callable[[Spot], dict[str, str]] = field(default=lambda _spot: {})


PYTHON_SERVERS = (
    Server("git", "mcp-server-git", args=lambda s: ["--repository", str(s.repo)]),
    Server("time", "mcp-server-time", args=lambda _: ["--local-timezone", "UTC"]),
    Server("fetch", "mcp-server-fetch"),
    Server("sqlite", "mcp-server-sqlite", args=lambda s: ["--db-path", str(s.data / "shop.db")]),
    Server("excel", "excel-mcp-server", args=lambda s: ["stdio", "--allow-dir", str(s.workspace)]),
    Server(
        "shell",
        "mcp-shell-server",
        env=lambda _: {"ALLOW_COMMANDS": "cat,date,echo,grep,head,ls,pwd,sort,tail,wc"},
    ),
    Server("calculator", "mcp-server-calculator"),
    Server("duckduckgo", "duckduckgo-mcp-server"),
)

JS_SERVERS = (
    Server(
        "filesystem",
        "@modelcontextprotocol/server-filesystem",
        args=lambda s: [str(s.workspace)],
    ),
    Server(
        "memory",
        "@modelcontextprotocol/server-memory",
        env=lambda s: {"MEMORY_FILE_PATH": str(s.data / "memory.jsonl")},
    ),
    Server("everything", "@modelcontextprotocol/server-everything"),
)

WORKSPACE_FILES = {
    "notes.txt": "Ring the plumber on Tuesday.\nThe spare key is with the neighbours.\n",
    "recipe.md": "# Flat bread\n\n300 g flour, 180 g water, a pinch of salt.\nRest, roll, fry.\n",
    "expenses.csv": "day,what,amount\n2025-03-01,train,24.50\n2025-03-02,lunch,11.20\n",
    "config.json": '{"theme": "dark", "autosave": true, "tab_width": 4}\n',
}

REPO_FILES = {
    "README.md": "# Greeter\n\nSays hello.\n",
    "greet.py": 'print("hello")\n',
}

SHOP = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, item TEXT, amount REAL);
INSERT INTO orders (customer, item, amount) VALUES
  ('Ada', 'teapot', 31.5), ('Linus', 'lamp', 54.0), ('Grace', 'clock', 18.25);
"""


class Progress:
    """Lines on stderr about what is going on."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def say(self, line: str) -> None:
        """Shows a line, unless the user wants none."""
        if not self._quiet:
            self.warn(line)

    @staticmethod
    def warn(line: str) -> None:
        """Shows a line in any case."""
        print(line, file=sys.stderr, flush=True)


def run(
    command: Sequence[str | Path], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> None:
    """Runs a command to its end; raises `InstallError` with its last words if it fails."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=STEP_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallError(f"{words[0]}: {error}") from error
    if done.returncode:
        raise InstallError(f"{Path(words[0]).name}: {_gist(done.stderr or done.stdout)}")


def _gist(output: str) -> str:
    """The line of a failed program's output that says most, without colours."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    lines = [" ".join(line.split()) for line in plain.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("WARNING")] or lines
    for at, line in enumerate(lines):
        if re.search(r"error|cannot|failed", line, re.IGNORECASE):
            return " ".join(lines[at : at + 3])[:300]
    return " ".join(lines[-1:])[:300] or "it failed and said nothing"


# Stamps: what is installed already


def _digest(*files: Path, kind: str = "") -> str:
    parts = [LAYOUT, kind, sys.base_prefix, str(sys.version_info[:2])]
    parts += [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _is_current(stamp: Path, digest: str, needed: Path) -> bool:
    try:
        return needed.exists() and stamp.read_text("utf-8").strip() == digest
    except OSError:
        return False


# Python servers


def install_python(spot: Spot, name: str, program: str, uv: str | None) -> bool:
    """Installs one requirement file into its environment; false if it was there already."""
    pins = PINS / f"{name}.txt"
    home = spot.venv(name)
    stamp, digest = home / "installed", _digest(pins)
    if _is_current(stamp, digest, spot.program(name, program)):
        return False
    shutil.rmtree(home, ignore_errors=True)
    home.parent.mkdir(parents=True, exist_ok=True)
    python = spot.program(name, "python")
    if uv:
        run([uv, "venv", "--quiet", "--no-project", "--python", sys.executable, home])
        run([uv, "pip", "install", *_uv_flags(), "--python", python, "--requirements", pins])
    else:
        run([sys.executable, "-m", "venv", home])
        run([python, "-m", "pip", "install", *_pip_flags(), "--requirement", pins])
    stamp.write_text(digest + "\n", "utf-8")
    return True


# The requirement files name everything, so nothing is resolved. (Older versions of pip also take
# a requirement with an extra, such as mcp[cli], for one without a pin.)
EXACTLY = ("--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:")


def _uv_flags() -> list[str]:
    return [*EXACTLY, "--compile-bytecode"]


def _pip_flags() -> list[str]:
    return [*EXACTLY, "--disable-pip-version-check", "--no-input", "--progress-bar", "off"]


def _python_entry(spot: Spot, server: Server) -> dict[str, Any]:
    return _entry(spot, server, str(spot.program(server.name, server.program)))


def _entry(
    spot: Spot,
    server: Server,
    command: str,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    entry: dict[str, Any] = {"command": command, "args": [*args, *server.args(spot)]}
    if everything := {**(env or {}), **server.env(spot)}:
        entry["env"] = everything
    return entry


# JavaScript servers


def _versions() -> dict[str, str]:
    return json.loads((PINS / "package.json").read_text("utf-8"))["dependencies"]


def has_node() -> bool:
    """Whether there are npm and a Node that is new enough."""
    node = shutil.which("node")
    if not node or not shutil.which("npm"):
        return False
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        asked = [node, "--version"]
        said = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=False)
        found = re.match(r"v(\d+)\.", said.stdout)
        return bool(found) and int(found[1]) >= OLDEST_NODE
    return False


def install_node(spot: Spot) -> bool:
    """Installs the JavaScript servers with npm; false if they were there already."""
    pins = [PINS / "package.json", PINS / "package-lock.json"]
    stamp, digest = spot.node / "installed", _digest(*pins, kind="node")
    if _is_current(stamp, digest, spot.node / "node_modules"):
        return False
    stamp.unlink(missing_ok=True)
    spot.node.mkdir(parents=True, exist_ok=True)
    for file in pins:
        shutil.copy(file, spot.node)
    npm = shutil.which("npm") or "npm"
    flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-progress", "--loglevel=error"]
    run([npm, "ci", *flags], cwd=spot.node)
    stamp.write_text(digest + "\n", "utf-8")
    return True


def _node_entry(spot: Spot, server: Server) -> dict[str, Any]:
    package = spot.node.joinpath("node_modules", *server.program.split("/"))
    programs: dict[str, str] = json.loads((package / "package.json").read_text("utf-8"))["bin"]
    script = package / next(iter(programs.values()))
    return _entry(spot, server, shutil.which("node") or "node", [str(script)])


def install_deno(spot: Spot, uv: str | None) -> bool:
    """Installs Deno and fills its cache with the servers; false if all was there already."""
    fresh = install_python(spot, "deno", "deno", uv)
    pins = [PINS / "package.json", PINS / "deno.lock", PINS / "deno.txt"]
    lock = spot.deno_dir / "deno.lock"
    stamp, digest = spot.deno_dir / "installed", _digest(*pins, kind="deno")
    if not fresh and _is_current(stamp, digest, lock):
        return False
    stamp.unlink(missing_ok=True)
    spot.deno_dir.mkdir(parents=True, exist_ok=True)
    shutil.copy(PINS / "deno.lock", lock)
    packages = [_specifier(server) for server in JS_SERVERS]
    env = {"DENO_TLS_CA_STORE": "mozilla,system", **os.environ, **_deno_env(spot)}
    run([spot.program("deno", "deno"), "cache", *_deno_flags(spot), *packages], env=env)
    stamp.write_text(digest + "\n", "utf-8")
    return True


def _specifier(server: Server) -> str:
    return f"npm:{server.program}@{_versions()[server.program]}"


def _deno_flags(spot: Spot) -> list[str]:
    return ["--quiet", "--no-config", f"--lock={spot.deno_dir / 'deno.lock'}", "--frozen"]


def _deno_env(spot: Spot) -> dict[str, str]:
    env = {"DENO_DIR": str(spot.deno_dir), "DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1"}
    # The cache is kept by registry: a server has to ask for the one that was used here.
    env.update({k: v for k, v in os.environ.items() if k == "NPM_CONFIG_REGISTRY"})
    return env


def _deno_entry(spot: Spot, server: Server) -> dict[str, Any]:
    args = ["run", "-A", "--cached-only", *_deno_flags(spot), _specifier(server)]
    return _entry(spot, server, str(spot.program("deno", "deno")), args, _deno_env(spot))


# What servers work on


def make_workspace(spot: Spot, *, git: str | None) -> None:
    """Makes the files that the servers are to be tried on; leaves what is there alone."""
    spot.workspace.mkdir(parents=True, exist_ok=True)
    spot.data.mkdir(parents=True, exist_ok=True)
    _write_missing(spot.workspace, WORKSPACE_FILES)
    if git:
        _make_repo(spot.repo, git)
    shop = spot.data / "shop.db"
    if not shop.exists():
        with contextlib.closing(sqlite3.connect(shop)) as database:
            database.executescript(SHOP)


def _write_missing(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        if not (folder / name).exists():
            (folder / name).write_text(text, "utf-8", newline="\n")


def _make_repo(repo: Path, git: str) -> None:
    if (repo / ".git" / "made").exists():
        return
    shutil.rmtree(repo, ignore_errors=True)
    repo.mkdir(parents=True)
    _write_missing(repo, REPO_FILES)
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    who = ["-c", "user.name=Demo", "-c", "user.email=demo@example.com"]
    plain = ["-c", "commit.gpgsign=false", "-c", "init.defaultBranch=main", *who]
    for step in (
        ["init", "--quiet", "--template="],
        ["config", "user.name", "Demo"],  # for the commits that the git server makes later
        ["config", "user.email", "demo@example.com"],
        ["add", "--all"],
        ["commit", "--quiet", "--message", "Say hello"],
    ):
        run([git, *plain, *step], env=env, cwd=repo)
    (repo / ".git" / "made").touch()
    # a change that waits to be committed
    (repo / "greet.py").write_text('print("hello, world")\n', "utf-8", newline="\n")


# All together


def choose_js(wanted: str) -> str:
    """Settles what JavaScript servers run under: node, deno or none."""
    if wanted == "auto":
        return "node" if has_node() else "deno"
    if wanted == "node" and not has_node():
        raise InstallError(f"--js node needs npm and Node {OLDEST_NODE} or newer on PATH")
    return wanted


def find_uv(wanted: str | None) -> str | None:
    """The absolute path of the uv program that the user named, if any."""
    if not wanted:
        return None
    found = shutil.which(wanted)
    if not found:
        raise InstallError(f"--uv: there is no program {wanted}")
    return str(Path(found).absolute())


def choose_python(progress: Progress) -> list[Server]:
    """The Python servers that can work on this machine."""
    servers = list(PYTHON_SERVERS)
    if not shutil.which("git"):
        progress.warn("leaving out git: there is no git program on PATH")
        servers = [server for server in servers if server.name != "git"]
    if WINDOWS:
        progress.say("leaving out shell: it does not run on Windows")
        servers = [server for server in servers if server.name != "shell"]
    return servers


Job = Callable[[], bool]


def plan(spot: Spot, servers: Sequence[Server], js: str, uv: str | None) -> dict[str, Job]:
    """What to install, by the name that progress lines show; what takes longest comes first."""
    jobs: dict[str, Job] = {}
    if js == "node":
        jobs["JavaScript servers (npm)"] = lambda: install_node(spot)
    if js == "deno":
        jobs["JavaScript servers (deno)"] = lambda: install_deno(spot, uv)
    for server in servers:
        name, program = server.name, server.program
        jobs[name] = lambda name=name, program=program: install_python(spot, name, program, uv)
    return jobs


def run_jobs(jobs: Mapping[str, Job], progress: Progress) -> None:
    """Runs the jobs side by side and raises the first failure."""
    workers = max(2, min(4, os.cpu_count() or 2))
    pool = ThreadPoolExecutor(workers)
    try:
        running = [pool.submit(_timed, name, job) for name, job in jobs.items()]
        for done in as_completed(running):
            name, fresh, seconds = done.result()
            if fresh:
                progress.say(f"installing {name} … {seconds:.1f} s")
    finally:
        pool.shutdown(cancel_futures=True)


def _timed(name: str, job: Job) -> tuple[str, bool, float]:
    start = time.perf_counter()
    try:
        fresh = job()
    except (InstallError, OSError) as error:
        raise InstallError(f"installing {name} failed: {error}") from error
    return name, fresh, time.perf_counter() - start


def write_config(spot: Spot, servers: Sequence[Server], js: str) -> Path:
    """Writes the client configuration of all the servers."""
    entries = {server.name: _python_entry(spot, server) for server in servers}
    if js != "none":
        of = _node_entry if js == "node" else _deno_entry
        entries |= {server.name: of(spot, server) for server in JS_SERVERS}
    file = spot.root / "servers.json"
    draft = file.with_suffix(".part")
    draft.write_text(json.dumps({"mcpServers": entries}, indent=2) + "\n", "utf-8")
    draft.replace(file)
    return file


@contextlib.contextmanager
def only_one(root: Path) -> Generator[None]:
    """Keeps a second installer out of the same folder until this one is through."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / "lock").open("w", encoding="utf-8") as handle:
        if fcntl:
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def install(options: argparse.Namespace) -> None:
    """Does all that the options ask for."""
    progress = Progress(quiet=options.quiet)
    start = time.perf_counter()
    uv = find_uv(options.uv)
    spot = Spot(options.into.expanduser().absolute())
    js = choose_js(options.js)
    with only_one(spot.root):
        servers = choose_python(progress)
        make_workspace(spot, git=shutil.which("git"))
        run_jobs(plan(spot, servers, js, uv), progress)
        file = write_config(spot, servers, js)
    progress.say(f"{file} is ready after {time.perf_counter() - start:.1f} s")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="Install real MCP servers to try things on.")
    parser.add_argument("--into", type=Path, required=True, help="the folder to install below")
    parser.add_argument("--uv", help="a uv program, which is faster than pip")
    parser.add_argument("--js", choices=["auto", "node", "deno", "none"], default="auto")
    parser.add_argument("--quiet", action="store_true", help="only say what goes wrong")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; the result is its exit status."""
    try:
        install(parse(argv))
    except (InstallError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
