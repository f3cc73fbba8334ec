"""What several gateways lose while they, and their database, are killed and paused: nothing.

Clients of both protocols search and call through the balancer. In the meantime
gateways are killed or stopped for a while, the database is restarted, and its connections are cut.
Between two such disturbances, once all is well, every gateway has to refuse a revoked token and
list a new tool soon. Tokens are made all the time: none that was acknowledged may be lost. Each
call carries a number, and each server writes down which it executed.
"""

import json
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from threading import Event, Thread
from typing import Any

import anyio
import pytest

from tests.deploy.shipped import balancer
from tests.endurance.effort import Effort
from tests.endurance.replica_clients import Tally, use
from tests.endurance.replicas import SERVERS, Replicas, body, status
from tests.postgres_server import postgres_server
from tests.support import until
from toolscript.config.access_tokens import TokenStore
from toolscript.errors import ToolscriptError
from toolscript.types import EVERYTHING, Grant

_GATEWAYS, _CLIENTS = 3, 16
_SECONDS = 180
_SETTLE_S = 60.0
"""How long clients may take to be served again at the end."""
_SOON_S = 10.0
"""When every gateway has seen a change, on a busy machine; alone it is a second."""


@pytest.fixture
def replicas(tmp_path: Path) -> Generator[Replicas]:
    with postgres_server() as postgres:
        replicas = Replicas(tmp_path, postgres, _GATEWAYS)
        try:
            yield replicas
        finally:
            replicas.stop()


def check_revocation(replicas: Replicas, tokens: TokenStore) -> None:
    """Every gateway refuses a token soon after it was revoked."""
    made, secret = tokens.create(EVERYTHING, "to revoke")

    def answers(code: int) -> bool:
        return all(status(url, "/tools", secret) == code for url in replicas.urls)

    until(lambda: answers(200), "a new token counts", 30)
    tokens.revoke(made.id)
    until(lambda: answers(401), "a revoked token is refused", _SOON_S)


def check_listing(replicas: Replicas, owner: str, server: str, name: str) -> None:
    """Every gateway lists a tool soon after its server offers it."""

    def is_listed(url: str) -> bool:
        answer: Any = body(url, "/tools", owner) or {}
        return f"{server}__{name}" in {each["toolId"] for each in answer.get("tools", ())}

    replicas.offer(server, name)
    until(lambda: all(map(is_listed, replicas.urls)), "a new tool is listed", _SOON_S)


def make_tokens(tokens: TokenStore, acknowledged: list[str], ended: Event) -> None:
    """Makes tokens until the end, and notes those that were acknowledged."""
    while not ended.wait(0.5):
        try:
            acknowledged.append(tokens.create(Grant(servers=("none",)), "kept")[0].id)
        except (ToolscriptError, OSError):
            continue


async def run_clients(
    url: str, bearers: Mapping[str, str], tallies: list[Tally], ended: Event
) -> None:
    """Runs every client until the end."""
    async with anyio.create_task_group() as tasks:
        for tally in tallies:
            tasks.start_soon(use, url, bearers[tally.server], tally, ended)


@pytest.mark.long  # the usual run has `tests/surfaces/test_replicas.py`
def test_disturbed_replicas_lose_nothing(replicas: Replicas, effort: Effort) -> None:
    tokens = TokenStore(replicas.folder, "unused", replicas.shared.records("tokens"))
    owner = tokens.create(EVERYTHING, "owner")[1]
    bearers = {name: tokens.create(Grant(servers=(name,)), name)[1] for name in SERVERS}
    for number in range(_GATEWAYS):
        replicas.start(number)
    replicas.wait_until_ready()
    pairs = [(SERVERS[n % len(SERVERS)], ("older", "newest")[n % 2]) for n in range(_CLIENTS)]
    tallies = [Tally(server, mode) for server, mode in pairs]
    acknowledged, ended = list[str](), Event()
    writer = Thread(target=make_tokens, args=(tokens, acknowledged, ended))
    with balancer(replicas.folder, *replicas.urls) as url:
        users = Thread(target=anyio.run, args=(run_clients, url, bearers, tallies, ended))
        for thread in (users, writer):
            thread.start()
        try:
            disturb(replicas, tokens, owner, effort)
            calm = time.monotonic()
            until(
                lambda: all(tally.last_served >= calm for tally in tallies),
                "every client is served again",
                _SETTLE_S,
            )
        finally:
            ended.set()
            for thread in (users, writer):
                thread.join()
    executed = replicas.executed()
    answered = [number for tally in tallies for number in tally.answered]
    assert answered
    assert set(acknowledged) <= {token.id for token in tokens.all()}
    assert {number for number, times in executed.items() if times > 1} == set()
    assert {number for number in answered if number not in executed} == set()
    assert [name for tally in tallies for name in tally.crossed] == []
    print(json.dumps(dict(replicas.done)))  # noqa: T201 - shown if a check fails


def disturb(replicas: Replicas, tokens: TokenStore, owner: str, effort: Effort) -> None:
    """Disturbs again and again; after each time changes are seen soon."""
    chance, end, number = effort.chance, time.monotonic() + _SECONDS * effort.scale, 0
    while time.monotonic() < end:
        replicas.disturb(chance)
        replicas.wait_until_ready()
        time.sleep(chance.uniform(2, 5))
        replicas.wait_until_ready()
        check_revocation(replicas, tokens)
        server = SERVERS[number % len(SERVERS)]
        check_listing(replicas, owner, server, f"{server}_new_{number}")
        number += 1
