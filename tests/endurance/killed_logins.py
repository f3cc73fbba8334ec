"""Kills processes while they refresh the tokens of a login, and looks whether it still works.

The provider rotates refresh tokens, and ends a login when one is used twice (RFC 9700). Each
round lets the token expire, has a command connect, kills the command with SIGKILL at a random
moment around its request for new tokens, and connects again. A login that is lost is made again.
"""

import json
import os
import random
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests import launcher
from tests.servers.logins import login_under_way, oauth_server, stored_logins, visit

_LIST = ["list-servers", "--refresh", "--output", "json"]
_SLOW_S = 0.3
"""How long the provider takes to answer."""
_STORING_S = 0.2
"""How long its answer may take until it is stored."""
_PATIENCE_S = 60.0


def kill_while_refreshing(
    folder: Path, kills: int, seed: int, storage: Mapping[str, str] = MappingProxyType({})
) -> dict[str, int]:
    """Counts what became of so many processes, and of the login, by what happened.

    ``storage`` are the variables that name a shared database; without, the login is in a file.
    """
    chance = random.Random(seed)  # noqa: S311 - no secret
    refreshes = folder / "refreshes"
    found = {"killed": 0, "during the request": 0, "lost": 0, "lost otherwise": 0}
    arrivals = folder / "arrivals"
    arrivals.touch()
    variables = {"REFRESHES": str(refreshes), "ARRIVALS": str(arrivals)}
    with oauth_server(SLOW_S=str(_SLOW_S), **variables) as url:
        config = folder / ".toolscript.json"
        config.write_text(json.dumps({"mcpServers": {"guarded": {"url": url}}}), "utf-8")
        environ = {k: v for k, v in os.environ.items() if not k.startswith("TOOLSCRIPT_")}
        environ |= {"HOME": str(folder), "TOOLSCRIPT_SEARCH_FALLBACK": "fuzzy"}
        environ |= {"TOOLSCRIPT_SEARCH_MODEL": "none", **storage}
        _log_in(environ, folder)
        for _ in range(kills):
            _expire(environ)
            during = _kill(environ, folder, arrivals, chance)
            found["killed"] += during is not None
            found["during the request"] += bool(during)
            if _state(environ, folder) != "ready":
                found["lost"] += 1
                found["lost otherwise"] += not during
                _log_in(environ, folder)
    lines = refreshes.read_text("utf-8").split() if refreshes.exists() else []
    return {**found, "refreshes": len(lines)}


def _log_in(environ: Mapping[str, str], folder: Path) -> None:
    with login_under_way("guarded", environ, folder) as (process, address):
        visit(address)
        process.wait(_PATIENCE_S)


def _expire(environ: Mapping[str, str]) -> None:
    with stored_logins(environ) as records:
        [name] = records.names()
        state = json.loads(records.read(name) or b"") | {"expires_at": 1.0}
        records.write(name, json.dumps(state).encode())


def _kill(
    environ: dict[str, str], folder: Path, arrivals: Path, chance: random.Random
) -> bool | None:
    """Whether a request was under way when the process was killed; None if it had ended."""
    before, wait_s = arrivals.stat().st_size, chance.uniform(-_SLOW_S, 2 * _SLOW_S)
    with launcher.begin(_LIST, folder, environ, hears_errors=True) as process:
        deadline = time.monotonic() + (_PATIENCE_S if wait_s > 0 else chance.uniform(0, 1.0))
        while arrivals.stat().st_size == before and process.poll() is None:
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)
        has_arrived = arrivals.stat().st_size > before
        time.sleep(max(0.0, wait_s))
        if process.poll() is not None:
            return None
        process.kill()
        return has_arrived and wait_s < _SLOW_S + _STORING_S


def _state(environ: dict[str, str], folder: Path) -> str:
    done = launcher.run(_LIST, folder, environ, _PATIENCE_S)
    answer: dict[str, Any] = json.loads(done.stdout or "{}")
    return answer["servers"][0]["state"] if answer else done.stderr
