"""Peers from this side: their environment, and the helper processes that run in it."""

import os
import subprocess
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, cast

import msgspec

import toolscript
from benchmarks.quality.adapters import PEERS
from benchmarks.quality.datasets import Tool

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / ".peers"
REQUIREMENTS = ROOT / "benchmarks" / "requirements-peers.txt"


class PeerError(Exception):
    """A peer does not work here: a message of one line."""


def python(environment: Path = ENVIRONMENT) -> Path:
    """The interpreter of the peers' environment."""
    windows = os.name == "nt"
    return environment / ("Scripts/python.exe" if windows else "bin/python")


def install(environment: Path = ENVIRONMENT) -> None:
    """Make the environment from pinned, hashed requirements."""
    venv.create(environment, clear=True, with_pip=True)
    (environment / ".gitignore").write_text("*\n", encoding="utf-8")
    command = [python(environment), "-m", "pip", "install", "--quiet", "--require-hashes"]
    done = subprocess.run([*command, "--no-deps", "-r", REQUIREMENTS], check=False)
    if done.returncode:
        raise PeerError(f"pip could not install {REQUIREMENTS}; see above")


class Peer:
    """One peer's engine in a helper process. Raises `PeerError` for whatever fails there."""

    def __init__(self, engine: str, environment: Path = ENVIRONMENT) -> None:
        if engine not in PEERS:
            raise PeerError(f"there is no peer {engine!r}")
        if not python(environment).exists():
            raise PeerError(
                f"{engine} is not installed; run python -m benchmarks.quality --install-peers"
            )
        self._engine = engine
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [python(environment), "-m", "benchmarks.quality.host", engine],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=_environ(),
            cwd=ROOT,
        )
        self._input = cast("IO[bytes]", self._process.stdin)
        self._output = cast("IO[bytes]", self._process.stdout)
        try:
            self.version: str = self._receive()["version"]
        except PeerError:
            self.close()
            raise

    def index(self, tools: Sequence[Tool]) -> float:
        """See `Timed.index`."""
        return self._ask({"index": tools})["seconds"]

    def search(self, text: str) -> tuple[list[str], float]:
        """See `Timed.search`."""
        answer = self._ask({"search": text})
        return answer["ids"], answer["ms"]

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            self._input.write(msgspec.json.encode(request) + b"\n")
            self._input.flush()
        except BrokenPipeError:
            pass  # why it ended is said below
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        line = self._output.readline()
        if not line:
            raise PeerError(f"{self._engine}: its process ended: {self._last_words()}")
        answer: dict[str, Any] = msgspec.json.decode(line)
        if "error" in answer:
            raise PeerError(f"{self._engine}: {' '.join(answer['error'].split())}")
        return answer

    def _last_words(self) -> str:
        self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "without a word")


def _environ() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOOLSCRIPT_")}
    source = Path(toolscript.__file__).parents[1]
    return kept | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(source)]), "PYTHONUTF8": "1"}
