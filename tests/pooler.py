"""PgBouncer from the system's packages, in transaction mode, before a server of `postgres`."""

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.postgres_server import PostgresServer, as_unprivileged, free_port
from toolscript.postgres.driver import driver

_SETTINGS = """
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
pool_mode = transaction
# Fewer than clients, so that these get each other's connections.
default_pool_size = 4
max_client_conn = 200
server_idle_timeout = 5
server_login_retry = 1
auth_type = trust
auth_file = {folder}/users
"""
_KNOWN_DEFECT = re.compile(r"FATAL .*(bad client state|bad server state|server in bad state)")


def installed() -> str | None:
    """The path of PgBouncer; None where it is not installed."""
    return shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")


@contextmanager
def pooler(program: str, server: PostgresServer) -> Generator[int]:
    """Runs PgBouncer for as long as the block lasts; yields its port.

    Starts it anew where it ends with "bad client state", or a server's: version 1.18, which Debian
    12 has, does where a server is lost while a statement is cancelled. Raises where it ends with
    anything else.
    """
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="toolscript-pooler-") as name:
        folder = Path(name)
        settings = _SETTINGS.format(server=server.port, port=port, folder=folder)
        (folder / "settings.ini").write_text(settings, "utf-8")
        (folder / "users").write_text('"postgres" ""\n', "utf-8")
        options = as_unprivileged(folder, *folder.iterdir())

        def run_until(ended: threading.Event) -> None:
            with (folder / "log").open("wb") as log:
                process = subprocess.Popen(
                    [program, "settings.ini"], stdout=log, stderr=log, cwd=folder, **options
                )
            while process.poll() is None and not ended.wait(0.02):
                pass
            process.kill()
            process.wait(30)
            said = (folder / "log").read_text("utf-8", "replace")
            assert ended.is_set() or _KNOWN_DEFECT.search(said), said[-2000:]

        with _repeated(run_until):
            assert asyncio.run(_answers(server.url(port=port)))
            yield port


@contextmanager
def _repeated(run_until: Callable[[threading.Event], None]) -> Generator[None]:
    """Has a thread call a function again and again, until the block ends or the function raises."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.is_set():
            run_until(ended)

    with ThreadPoolExecutor(1) as pool:
        repeating = pool.submit(repeat)
        try:
            yield
        finally:
            ended.set()
            repeating.result()


async def _answers(url: str) -> bool:
    asyncpg = driver()
    for _ in range(200):
        try:
            connection = await asyncpg.connect(url, timeout=5, statement_cache_size=0)
        except (OSError, asyncpg.PostgresError):
            await asyncio.sleep(0.05)
            continue
        await connection.close()
        return True
    return False
