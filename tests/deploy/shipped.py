"""The files of ``deploy/``, taken apart for the tests."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
import yaml

from tests.docs.pages import Mention, check_command
from tests.support import ROOT, fetch, until
from toolscript.config.settings import OPTIONS
from toolscript.surfaces.http.probe_routes import ENDPOINTS

DEPLOY = ROOT / "deploy"
DOCKERFILE = DEPLOY / "Dockerfile"
COMPOSE = DEPLOY / "compose.yaml"
CADDY = Path(sys.executable).parent / "caddy"
CADDYFILE = DEPLOY / "Caddyfile"
CHART = DEPLOY / "helm" / "toolscript"
VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
USER = 65532
PORT = 7337
PROBES = {endpoint.path for endpoint in ENDPOINTS}


def program(name: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """Runs a program that is installed beside this Python; skips the test where there is none."""
    found = shutil.which(name, path=Path(sys.executable).parent)
    if found is None:
        pytest.skip(f"{name} has no wheel for this machine")
    command = [found, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def unknown_variables(names: Iterable[str]) -> set[str]:
    """The variables of ours among these that no option has."""
    return {name for name in names if name.startswith("TOOLSCRIPT_")} - {o.env for o in OPTIONS}


def check_arguments(arguments: Sequence[str]) -> None:
    """Fail unless ``toolscript`` can be called with these arguments."""
    check_command(Mention(list(arguments), whole=True))


class Instruction(NamedTuple):
    """One instruction of a Dockerfile."""

    word: str
    rest: str

    @property
    def listed(self) -> list[str]:
        """The words of an instruction in exec form; fails for one in shell form."""
        return json.loads(self.rest)


def stages() -> dict[str, list[Instruction]]:
    """The instructions of each stage of the Dockerfile, from its FROM on, by its name."""
    lines = DOCKERFILE.read_text("utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#")).replace("\\\n", " ")
    found: dict[str, list[Instruction]] = {"": []}
    name = ""
    for line in filter(None, text.splitlines()):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            name = rest.partition(" AS ")[2]
        found.setdefault(name, []).append(Instruction(word, " ".join(rest.split())))
    return found


def compose() -> dict[str, Any]:
    """The compose file, its anchors resolved."""
    return yaml.safe_load(COMPOSE.read_text("utf-8"))


@contextmanager
def balancer(home: Path, *urls: str) -> Generator[str]:
    """The balancer before these gateways, as soon as it sends requests to one: its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "ADDRESS": "127.0.0.1",
        "PORT": str(port),
        "GATEWAYS": " ".join(urlsplit(url).netloc for url in urls),
    }
    command = [CADDY, "run", "--adapter", "caddyfile", "--config", CADDYFILE]
    with (home / "caddy.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, cwd=home, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: listens(port) and fetch(url, "/ready")[0] == 200, "the balancer is up")
        yield url
    finally:
        process.kill()
        process.wait()


def listens(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0
