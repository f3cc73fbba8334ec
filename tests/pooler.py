"""PgBouncer from the system's packages, in transaction mode, before a server of `postgres`."""

import asyncio
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.postgres import PostgresServer, as_unprivileged, free_port
from toolscript.cluster.driver import driver

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


def installed() -> str | None:
    """The path of PgBouncer; None where it is not installed."""
    return shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")


@contextmanager
def pooler(program: str, server: PostgresServer) -> Generator[int]:
    """Runs PgBouncer for as long as the block lasts, anew whenever it ends; yields its port.

    Version 1.18, which Debian 12 has, ends with "bad client state" where a server is lost while
    a statement is cancelled. It is a service, which its system starts again.
    """
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="toolscript-pooler-") as name:
        folder = Path(name)
        settings = _SETTINGS.format(server=server.port, port=port, folder=folder)
        (folder / "settings.ini").write_text(settings, "utf-8")
        (folder / "users").write_text('"postgres" ""\n', "utf-8")
        options = as_unprivileged(folder, *folder.iterdir())

        def start() -> "subprocess.Popen[Any]":
            with (folder / "log").open("ab") as log:
                return subprocess.Popen(
                    [program, "settings.ini"], stdout=log, stderr=log, cwd=folder, **options
                )

        with _kept_running(start):
            assert asyncio.run(_answers(server.url(port=port))), (folder / "log").read_text()
            yield port


@contextmanager
def _kept_running(start: Callable[[], "subprocess.Popen[Any]"]) -> Generator[None]:
    ended = threading.Event()

    def keep() -> None:
        while not ended.is_set():
            process = start()
            while process.poll() is None and not ended.wait(0.02):
                pass
            process.terminate()
            process.wait(30)

    thread = threading.Thread(target=keep, name="pooler")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


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
