"""Attacks on logins: processes that refresh at once, callbacks of others."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.servers.logins import login_under_way, oauth_server, visit

from benchmarks.attack.base import Effort, Outcome
from benchmarks.gateways import configure, write

_PROGRAM = [sys.executable, "-P", "-m", "toolscript"]
_PROCESSES = 4


def attacks(effort: Effort) -> Iterator[Outcome]:
    """Log in to a provider that ends a login whose refresh token is used twice."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = {"TOOLSCRIPT_DATA_DIR": name, "TOOLSCRIPT_CONFIG": f"{name}/config.json"}
        environ = {**os.environ, **own, "TOOLSCRIPT_SEARCH_FALLBACK": "fuzzy"}
        more = {"REFRESHES": f"{name}/refreshes", "SLOW_S": "0.3"}
        with oauth_server(**more) as url:
            configure(folder, {"guarded": {"url": url}})
            yield _callbacks(folder, environ, effort)
            yield _refreshes(folder, environ, effort)


def _callbacks(folder: Path, environ: dict[str, str], effort: Effort) -> Outcome:
    tried = effort.times(200)
    with login_under_way("guarded", environ, folder) as (process, url):
        back = parse_qs(urlsplit(url).query)["redirect_uri"][0]
        statuses = [visit(f"{back}?error=x&state={number}")[0] for number in range(tried)]
        refused = statuses.count(404)
        done = visit(url)[0] == 200 and process.wait(60) == 0
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
