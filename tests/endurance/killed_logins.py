"""Kills processes while they refresh the tokens of a login, and looks whether it still works.

The provider rotates refresh tokens, and ends a login when one is used twice (RFC 9700). Each
round lets the token expire, has a command connect, kills the command with SIGKILL at a random
moment after its request for new tokens has begun, and connects again. Linux only.
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
from tests.support import processes

_LIST = ["list-servers", "--refresh", "--output", "json"]
_SLOW_S = 0.3
"""How long the provider takes to answer."""
_PATIENCE_S = 60.0


def kill_while_refreshing(
    folder: Path, kills: int, seed: int, storage: Mapping[str, str] = MappingProxyType({})
) -> dict[str, int]:
    """Counts what became of so many processes, and of the login, by what happened.

    ``storage`` are the variables that name a shared database; without, the login is in a file.
    """
    chance = random.Random(seed)  # noqa: S311 - no secret
    refreshes = folder / "refreshes"
    found = {"killed": 0, "during the request": 0, "lost": 0}
    with oauth_server(SLOW_S=str(_SLOW_S), REFRESHES=str(refreshes)) as url:
        config = folder / ".toolscript.json"
        config.write_text(json.dumps({"mcpServers": {"guarded": {"url": url}}}), "utf-8")
        environ = {k: v for k, v in os.environ.items() if not k.startswith("TOOLSCRIPT_")}
        environ |= {"HOME": str(folder), "TOOLSCRIPT_SEARCH_FALLBACK": "fuzzy"}
        environ |= {"TOOLSCRIPT_SEARCH_MODEL": "none", **storage}
        with login_under_way("guarded", environ, folder) as (process, address):
            visit(address)
            process.wait(_PATIENCE_S)
        for _ in range(kills):
            _expire(environ)
            during = _kill(environ, folder, chance)
            found["killed"] += during is not None
            found["during the request"] += bool(during)
            found["lost"] += _state(environ, folder) != "ready"
    lines = refreshes.read_text("utf-8").split() if refreshes.exists() else []
    return {**found, "refreshes": len(lines), "used twice": lines.count("used")}


def _expire(environ: Mapping[str, str]) -> None:
    with stored_logins(environ) as records:
        [name] = records.names()
        state = json.loads(records.read(name) or b"") | {"expires_at": 1.0}
        records.write(name, json.dumps(state).encode())


def _kill(environ: dict[str, str], folder: Path, chance: random.Random) -> bool | None:
    """Whether a request was under way when the process was killed; None where it had ended."""
    mark = f"{folder}/.toolscript/auth"
    with launcher.begin(_LIST, folder, environ, hears_errors=True) as process:
        deadline = time.monotonic() + _PATIENCE_S
        while not processes(mark) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 3 * _SLOW_S))
        if process.poll() is not None:
            return None
        process.kill()
        return bool(processes(mark))


def _state(environ: dict[str, str], folder: Path) -> str:
    done = launcher.run(_LIST, folder, environ, _PATIENCE_S)
    answer: dict[str, Any] = json.loads(done.stdout or "{}")
    return answer["servers"][0]["state"] if answer else done.stderr
