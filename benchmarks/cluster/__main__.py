"""Counts what several gateways lose while they, and their database, are killed and paused.

    python -m benchmarks.cluster --minutes 5

Clients of both protocols search and call through a balancer without affinity. In the meantime
gateways are killed or stopped for a while, the database is restarted, and its connections are
cut. Between two such disturbances, once all is well, it is measured how soon every gateway refuses
a revoked token and lists a new tool. Tokens are made all the time: none that was acknowledged may
be lost. Each call carries a number, and each server writes down which it executed.
"""

import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import anyio
from tests.postgres_server import postgres_server
from tests.round_robin import serving

from benchmarks.arguments import Parser
from benchmarks.cluster.balancer import Balancer
from benchmarks.cluster.clients import Tally, use
from benchmarks.cluster.gateways import SERVERS, Cluster, body, status, wait_for
from benchmarks.report import meta, table, write
from toolscript.config.access_tokens import TokenStore
from toolscript.errors import ToolscriptError
from toolscript.types import EVERYTHING, Grant

SETTLE_S = 60.0
"""How long clients may take to be served again at the end."""
PATIENCE_S = 30.0
"""How long it is waited until every gateway has seen a change."""


def main() -> int:
    """Runs it; returns 1 where something was lost."""
    parser = Parser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--gateways", type=int, default=3)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seed", type=int, default=19)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, postgres_server() as postgres:
        cluster = Cluster(Path(folder), postgres, given.gateways)
        try:
            report = measured(cluster, given.minutes * 60, given.clients, given.seed)
        finally:
            cluster.stop()
    print_report(report)
    write(given.output, {"meta": meta(seed=given.seed, minutes=given.minutes), **report})
    return 0 if not report["lost"] else 1


def measured(cluster: Cluster, seconds: float, clients: int, seed: int) -> dict[str, Any]:
    """Returns what came of everything."""
    chance = random.Random(seed)  # noqa: S311 - chooses disturbances
    tokens = TokenStore(cluster.folder, "unused", cluster.shared.records("tokens"))
    owner = tokens.create(EVERYTHING, "owner")[1]
    bearers = {name: tokens.create(Grant(servers=(name,)), name)[1] for name in SERVERS}
    for number in range(len(cluster.urls)):
        cluster.start(number)
    cluster.wait_until_ready()
    pairs = [(SERVERS[n % len(SERVERS)], ("older", "newest")[n % 2]) for n in range(clients)]
    tallies = [Tally(server, mode) for server, mode in pairs]
    acknowledged, ended = list[str](), Event()
    until = time.monotonic() + seconds
    writer = Thread(target=make_tokens, args=(tokens, acknowledged, ended))
    with serving(Balancer(cluster.urls)) as url:
        users = Thread(
            target=anyio.run, args=(run_clients, url, bearers, tallies, until + SETTLE_S)
        )
        for thread in (users, writer):
            thread.start()
        try:
            delays = disturbed(cluster, tokens, owner, chance, until)
            calm = time.monotonic()
            users.join()
        finally:
            ended.set()
            writer.join()
    kept = {token.id for token in tokens.all()}
    executed = cluster.executed()
    answered = [number for tally in tallies for number in tally.answered]
    lost = {
        "clients not served at the end": sum(t.last_served < calm for t in tallies),
        "acknowledged tokens lost": len(set(acknowledged) - kept),
        "calls executed twice": sum(count > 1 for count in executed.values()),
        "answered calls that no server executed": sum(n not in executed for n in answered),
        "tools of other servers seen": sum(len(t.crossed) for t in tallies),
        "revoked tokens admitted after a second": sum(s > 1 for s in delays["revoked"]),
        "new tools not listed after a second": sum(s > 1 for s in delays["listed"]),
    }
    counts = sum((tally.counts for tally in tallies), Counter[str]())
    return {
        "disturbances": dict(cluster.done),
        "counts": dict(counts.most_common()),
        "tokens acknowledged": len(acknowledged),
        "delays_s": {name: sorted(values) for name, values in delays.items()},
        "checks": lost,
        "lost": {name: count for name, count in lost.items() if count},
    }


def disturbed(
    cluster: Cluster, tokens: TokenStore, owner: str, chance: random.Random, until: float
) -> dict[str, list[float]]:
    """Disturbs until a time; returns how soon changes were seen whenever all was well."""
    delays: dict[str, list[float]] = {"revoked": [], "listed": []}
    for number in range(1000):
        what = cluster.disturb(chance)
        cluster.wait_until_ready()
        print(f"{until - time.monotonic():4.0f} s left: {what}", file=sys.stderr)
        time.sleep(chance.uniform(2, 5))
        cluster.wait_until_ready()
        delays["revoked"].append(revocation_s(cluster, tokens))
        server = SERVERS[number % len(SERVERS)]
        delays["listed"].append(listing_s(cluster, owner, server, f"{server}_new_{number}"))
        if time.monotonic() >= until:
            return delays
    return delays


def revocation_s(cluster: Cluster, tokens: TokenStore) -> float:
    """Returns how long after a token is revoked every gateway refuses it, in seconds."""
    made, secret = tokens.create(EVERYTHING, "to revoke")

    def answered(code: int) -> bool:
        return all(status(url, "/tools", secret) == code for url in cluster.urls)

    wait_for("a new token counts", lambda: answered(200), 30)
    tokens.revoke(made.id)
    return delay_s(lambda: answered(401))


def listing_s(cluster: Cluster, owner: str, server: str, name: str) -> float:
    """Returns how long after a server offers a new tool every gateway lists it, in seconds."""

    def is_listed(url: str) -> bool:
        answer: Any = body(url, "/tools", owner) or {}
        return f"{server}__{name}" in {each["toolId"] for each in answer.get("tools", ())}

    cluster.offer(server, name)
    return delay_s(lambda: all(map(is_listed, cluster.urls)))


def delay_s(condition: Callable[[], bool]) -> float:
    """Returns how many seconds it takes until a condition holds; `PATIENCE_S` where it does not."""
    try:
        return wait_for("it is seen", condition, PATIENCE_S)
    except TimeoutError:
        return PATIENCE_S


def make_tokens(tokens: TokenStore, acknowledged: list[str], ended: Event) -> None:
    """Makes tokens until the end, and notes those that were acknowledged."""
    while not ended.wait(0.5):
        try:
            acknowledged.append(tokens.create(Grant(servers=("none",)), "kept")[0].id)
        except (ToolscriptError, OSError):
            continue


async def run_clients(
    url: str, bearers: dict[str, str], tallies: list[Tally], until: float
) -> None:
    """Runs every client until a time."""
    async with anyio.create_task_group() as tasks:
        for tally in tallies:
            tasks.start_soon(use, url, bearers[tally.server], tally, until)


def print_report(report: dict[str, Any]) -> None:
    """Prints the report as tables."""
    for title in ("disturbances", "counts", "checks"):
        table([title, "number"], [[name, str(n)] for name, n in report[title].items()])
        print()
    rows = [
        [name, str(len(values)), f"{values[len(values) // 2]:.2f}", f"{values[-1]:.2f}"]
        for name, values in report["delays_s"].items()
    ]
    table(["seen by every gateway, s", "times", "median", "most"], rows)
    print(f"\nacknowledged tokens: {report['tokens acknowledged']}")


if __name__ == "__main__":
    sys.exit(main())
