"""A gateway as its users have it: a real process, with its data in a folder of its own."""

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

SCRIPTED = Path(__file__).resolve().parent / "servers" / "scripted.py"
"""A server that behaves, or misbehaves, as its argument says; see there."""
JSON = {"Content-Type": "application/json"}
_PROGRAM = [sys.executable, "-P", "-m", "toolscript", "gateway"]


@dataclass(frozen=True)
class Started:
    """A gateway that runs."""

    url: str
    pid: int
    key: str = field(default="", repr=False)
    """Its owner's."""

    def connect(self, timeout_s: float = 30.0) -> socket.socket:
        """Returns a connection on which anything can be sent."""
        return socket.create_connection(self._address, timeout_s)

    def client(self, timeout_s: float = 30.0) -> http.client.HTTPConnection:
        """Returns a client that keeps its connection."""
        return http.client.HTTPConnection(*self._address, timeout=timeout_s)

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = JSON
    ) -> tuple[int, bytes, Mapping[str, str]]:
        """Returns status, body and headers of an answer; status 0 if there is none."""
        client = self.client(60)
        try:
            client.request(method, path, body, dict(headers))
            response = client.getresponse()
            return response.status, response.read(), dict(response.headers)
        except (OSError, http.client.HTTPException):
            return 0, b"", {}
        finally:
            client.close()

    @property
    def _address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or 0


@contextmanager
def gateway(folder: Path, *, wrap: Sequence[str] = (), **settings: str) -> Generator[Started]:
    """Runs a gateway over ``config.json`` in this folder; the keys of ``settings`` are variables.

    ``wrap`` is a command that starts the one that follows it, such as ``nice``.
    """
    environ = _environ(folder, settings)
    _run([*wrap, *_PROGRAM, "start", "--open", "--port", "0"], environ)
    try:
        yield _started(folder)
    finally:
        _run([*_PROGRAM, "stop"], environ)


@contextmanager
def at_once(folder: Path, log: IO[bytes] | None = None, **settings: str) -> Generator[Started]:
    """Runs a gateway in the foreground, and does not wait for its servers.

    ``log`` receives its log.
    """
    command = [*_PROGRAM, "start", "--open", "--foreground", "--port", "0"]
    environ = _environ(folder, settings)
    with subprocess.Popen(command, env=environ, stderr=log) as process:
        try:
            while not any(folder.glob("run/gateway-*.json")):
                if process.poll() is not None:
                    raise SystemExit("the gateway did not start")
                time.sleep(0.01)
            yield _started(folder)
        finally:
            process.terminate()


def _environ(folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TOOLSCRIPT_")}
    own = {"TOOLSCRIPT_DATA_DIR": str(folder), "TOOLSCRIPT_CONFIG": str(folder / "config.json")}
    return {**kept, **own, **settings}


def _started(folder: Path) -> Started:
    record = json.loads(next(folder.glob("run/gateway-*.json")).read_text("utf-8"))
    return Started(record["url"], record["pid"], record["key"])


def configure(folder: Path, servers: Mapping[str, Any]) -> None:
    """Writes the configuration, at once as a whole."""
    write(folder / "config.json", json.dumps({"mcpServers": servers}))


def scripted(**will: Any) -> dict[str, Any]:
    """Returns an entry of the configuration for a server with this script."""
    return {"command": sys.executable, "args": ["-S", "-E", str(SCRIPTED), json.dumps(will)]}


def write(path: Path, text: str) -> None:
    """Replaces a file so that nobody reads half of it."""
    half = path.with_name(f"{path.name}.new")
    half.write_text(text, "utf-8")
    half.replace(path)


def _run(command: list[str], environ: dict[str, str]) -> None:
    subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
