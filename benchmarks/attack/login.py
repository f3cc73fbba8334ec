"""Attacks on logins: processes that refresh at once, callbacks of others."""

import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from benchmarks.attack.base import Effort, Outcome
from benchmarks.gateways import SCRIPTED, configure, write

_PROGRAM = [sys.executable, "-P", "-m", "toolscript"]
_PROCESSES = 4


def attacks(effort: Effort) -> Iterator[Outcome]:
    """Log in to a provider that ends a login whose refresh token is used twice."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = {"TOOLSCRIPT_DATA_DIR": name, "TOOLSCRIPT_CONFIG": f"{name}/config.json"}
        environ = {**os.environ, **own, "TOOLSCRIPT_SEARCH_FALLBACK": "fuzzy"}
        more = {"REFRESHES": f"{name}/refreshes", "SLOW_S": "0.3"}
        with subprocess.Popen(
            [sys.executable, str(SCRIPTED.with_name("oauth.py"))],
            env={"PATH": os.environ["PATH"], **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as server:
            assert server.stdout  # noqa: S101 - it is a pipe
            configure(folder, {"guarded": {"url": server.stdout.readline().strip()}})
            try:
                yield _callbacks(environ, effort)
                yield _refreshes(folder, environ, effort)
            finally:
                server.kill()


def _callbacks(environ: dict[str, str], effort: Effort) -> Outcome:
    tried = effort.times(200)
    with subprocess.Popen(
        [*_PROGRAM, "auth", "guarded", "--no-browser"],
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr  # noqa: S101 - it is a pipe
        url: str = "http://" + process.stderr.readline().partition("http://")[2].strip()
        back: str = parse_qs(urlsplit(str(url)).query)["redirect_uri"][0]
        refused = [_visit(f"{back}?error=x&state={number}") for number in range(tried)].count(404)
        done = _visit(url) == 200 and process.wait(60) == 0
    return Outcome("M13", "forged callbacks before the real one", tried, refused if done else 0)


def _refreshes(folder: Path, environ: dict[str, str], effort: Effort) -> Outcome:
    rounds, held = effort.times(5), 0
    [file] = (folder / "auth").glob("*.json")
    for _ in range(rounds):
        write(file, json.dumps(json.loads(file.read_text("utf-8")) | {"expires_at": 1.0}))
        command = [*_PROGRAM, "list-servers", "--refresh", "--output", "json"]
        many = [
            subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True)
            for _ in range(_PROCESSES)
        ]
        said = [json.loads(each.communicate(timeout=60)[0]) for each in many]
        held += all(each["servers"][0]["state"] == "ready" for each in said)
    lines = (folder / "refreshes").read_text("utf-8").split()
    figure = f"{lines.count('new')} refreshes, {lines.count('used')} tokens used twice"
    attack = f"{_PROCESSES} processes refresh at once"
    return Outcome("M12", attack, rounds, held if lines == ["new"] * rounds else 0, figure)


def _visit(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=30) as page:  # noqa: S310 - a server of our own
            return page.status
    except urllib.error.HTTPError as error:
        return error.code
