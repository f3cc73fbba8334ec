"""Gateways with one database, and what is done to them."""

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2

from tests.postgres_server import PostgresServer, free_port
from tests.support import Scripted, tool, until, write_config
from toolscript.config.secret_key import SecretKey
from toolscript.postgres.shared_stores import SharedStores

SERVERS = ("alpha", "beta", "gamma")
KEY = "k" * 32
READY_S = 90.0


class Replicas:
    """Some gateways with one database. `start` begins them, `stop` ends everything."""

    def __init__(self, folder: Path, postgres: PostgresServer, count: int) -> None:
        self.folder = folder
        self.postgres = postgres
        self.calls = folder / "calls"
        self.urls = [f"http://127.0.0.1:{free_port()}" for _ in range(count)]
        self.done: Counter[str] = Counter()
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * count
        self._tools = {name: folder / f"{name}.json" for name in SERVERS}
        self._offered: dict[str, list[str]] = {name: [] for name in SERVERS}
        for name in SERVERS:
            self.offer(name, f"{name}_echo")
        postgres.execute("create database replicas")
        self.shared = SharedStores(postgres.url("replicas"), SecretKey(KEY))
        self.shared.database.open()

    def offer(self, server: str, name: str) -> None:
        """Has a server offer one more tool; it says so at once where it runs.

        A tool in place of a similar one would be held, as one that was renamed.
        """
        names = self._offered[server]
        names.append(name)
        new = self.folder / f"{server}.new"
        new.write_text(json.dumps([tool(name, f"{name} of {server}") for name in names]), "utf-8")
        new.replace(self._tools[server])

    def start(self, number: int) -> None:
        """Starts a gateway, which is ready some time later."""
        home = self.folder / f"gateway-{number}"
        home.mkdir(exist_ok=True)
        scripted = Scripted(self.folder)
        entries = {
            name: scripted(tools_file=str(path), calls=str(self.calls)) | {"start": "eager"}
            for name, path in self._tools.items()
        }
        write_config(home / ".toolscript.json", entries)
        url = self.urls[number]
        env = {
            "HOME": str(home),
            "PATH": "/usr/bin:/bin",
            "TOOLSCRIPT_SEARCH_MODEL": "bundled",
            "TOOLSCRIPT_IDLE_TIMEOUT": "0",
            "TOOLSCRIPT_DATABASE": self.postgres.url("replicas"),
            "TOOLSCRIPT_SECRET_KEY": KEY,
        }
        command = [sys.executable, "-P", "-m", "toolscript", "gateway", "start", "--foreground"]
        command.append("--open")
        with (home / "gateway.log").open("ab") as log:
            self._processes[number] = subprocess.Popen(
                [*command, "--port", url.rpartition(":")[2]], env=env, stderr=log, cwd=home
            )

    def wait_until_ready(self) -> None:
        """Returns once every gateway can answer searches."""
        until(lambda: all(map(_is_ready, self.urls)), "every gateway is ready", READY_S)

    def kill(self, chance: random.Random) -> None:
        """Kills a gateway, and starts it again."""
        number = chance.randrange(len(self.urls))
        process = self._processes[number]
        if process is not None:
            process.kill()
            process.wait()
        self.start(number)

    def pause(self, chance: random.Random) -> None:
        """Stops a gateway's process for longer than its leases last."""
        process = chance.choice(self._processes)
        if process is not None:
            process.send_signal(signal.SIGSTOP)
            time.sleep(chance.uniform(1, 13))
            process.send_signal(signal.SIGCONT)

    def restart_database(self, chance: random.Random) -> None:
        """Stops the database, kindly or not, and starts it again a few seconds later."""
        self.postgres.stop(chance.choice([signal.SIGINT, signal.SIGQUIT]))
        time.sleep(chance.uniform(0, 5))
        self.postgres.start()

    def cut_connections(self, _: random.Random) -> None:
        """Ends every connection of the database."""
        self.postgres.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = 'replicas' and pid <> pg_backend_pid()"
        )

    def disturb(self, chance: random.Random) -> str:
        """Does one of these, and returns which."""
        what = chance.choice([self.kill, self.pause, self.restart_database, self.cut_connections])
        what(chance)
        self.done[what.__name__] += 1
        return what.__name__

    def stop(self) -> None:
        """Ends the gateways."""
        for process in filter(None, self._processes):
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in filter(None, self._processes):
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.shared.close()

    def executed(self) -> Counter[str]:
        """How often each call was executed, by the number that it carries."""
        if not self.calls.exists():
            return Counter()
        lines = self.calls.read_text("utf-8").splitlines()
        return Counter(str(json.loads(line)["arguments"].get("number")) for line in lines)


def _is_ready(url: str) -> bool:
    return status(url, "/ready") == 200


def status(url: str, path: str, token: str = "") -> int:
    """The status of an answer; 0 where there is none."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        return httpx2.get(f"{url}{path}", headers=headers, timeout=5).status_code
    except httpx2.HTTPError:
        return 0


def body(url: str, path: str, token: str) -> Any:
    """The JSON of an answer; None where there is none."""
    try:
        return httpx2.get(
            f"{url}{path}", headers={"Authorization": f"Bearer {token}"}, timeout=5
        ).json()
    except (httpx2.HTTPError, ValueError):
        return None
