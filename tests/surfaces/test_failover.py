"""Gateways whose database is lost, and replaced by its standby; and gateways behind a pooler."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from tests.postgres_server import PostgresServer, replicated_servers
from tests.support import fetch, stop_all, until
from tests.surfaces.test_replicas import WRITE, Gateway, Gateways, owners_health

from toolscript.config.access_tokens import TokenStore
from toolscript.config.settings import load_settings
from toolscript.errors import DatabaseUnavailableError
from toolscript.postgres.shared_stores import SharedStores, open_stores
from toolscript.types import EVERYTHING


@contextmanager
def sharing(home: Path, url: str) -> Generator[Gateways]:
    """Gateways that share a database; they are stopped at the end."""
    gateways = Gateways(home, url)
    try:
        yield gateways
    finally:
        stop_all(each.cli.record()["pid"] for each in gateways.started if each.cli.records)


def statuses(gateway: Gateway, tokens: list[str]) -> set[int]:
    """How a gateway answers the bearers of these tokens."""
    headers = [{"Authorization": f"Bearer {token}"} for token in tokens]
    return {fetch(gateway.url, "/servers", headers=each)[0] for each in headers}


class Making:
    """Makes one token after the other, whatever becomes of the database."""

    def __init__(self, url: str) -> None:
        self.made: list[str] = []
        """Those of which it was said that they are stored."""
        self._environ = {"TOOLSCRIPT_DATABASE": url, "TOOLSCRIPT_SECRET_KEY": "a" * 32}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._make)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _make(self) -> None:
        shared: SharedStores = open_stores(load_settings({}, self._environ))
        tokens = TokenStore(Path("unused"), "unused", shared.records("tokens"))
        while not self._ended.wait(0.05):
            try:
                self.made.append(tokens.create(EVERYTHING)[1])
            except (DatabaseUnavailableError, OSError):
                continue
        shared.close()


@pytest.mark.usefixtures("no_process_left")
def test_gateways_go_on_with_the_standby_and_no_token_is_lost(tmp_path: Path) -> None:
    with (
        replicated_servers(synchronous=True) as (primary, standby, url),
        sharing(tmp_path, url) as gateways,
    ):
        gateways.configure(files=gateways.server("files"))
        one, two = gateways.start(), gateways.start()
        with Making(url) as making:
            until(lambda: len(making.made) > 3, "tokens are made")
            until(lambda: statuses(one, making.made[:1]) == {200}, "the first one counts")
            primary.stop(signal.SIGQUIT)
            standby.promote()
            # Whether an attempt fails in between is a matter of milliseconds: none has to.
            before = len(making.made)
            until(lambda: len(making.made) > before + 3, "tokens are made again")
        for each in (one, two):
            until(lambda each=each: statuses(each, making.made) == {200}, "every token counts")
            until(lambda each=each: owners_health(each)["database"]["answers"], "it answers")
        owner: dict[str, Any] = {"Authorization": f"Bearer {one.cli.record()['key']}"}
        headers = owner | {"Content-Type": "application/json"}
        called = fetch(one.url, "/tools/files__write_file", method="POST", headers=headers)
        assert called[0] == 200
        until(lambda: one.cli.json("activity")["calls"], "the call is stored")
        gateways.configure(files=gateways.server("files"), other=gateways.server("other", WRITE))
        bearer = {"Authorization": f"Bearer {making.made[0]}"}
        for each in (one, two):
            until(
                lambda each=each: (
                    "other__write_file" in str(fetch(each.url, "/tools", headers=bearer)[1])
                ),
                "changes of the configuration go on",
            )
        [first, *_] = one.cli.json("token", "list")["tokens"]
        assert two.cli("token", "revoke", first["id"]).returncode == 0
        for each in (one, two):
            until(lambda each=each: statuses(each, making.made[:1]) == {401}, "it is refused")


@pytest.mark.usefixtures("no_process_left")
def test_behind_a_pooler_gateways_share_tokens_and_hear_of_changes(
    tmp_path: Path, database_url: str, pooler_port: int, postgres: PostgresServer
) -> None:
    pooled = database_url.replace(f":{postgres.port}/", f":{pooler_port}/")
    with sharing(tmp_path, pooled) as gateways:
        gateways.configure(files=gateways.server("files"))
        one, two = gateways.start(), gateways.start()
        made = one.cli.json("token", "create")
        for each in (one, two):
            until(lambda each=each: fetch(each.url, "/servers")[0] == 401, "it asks for a token")
            assert statuses(each, [made["token"]]) == {200}
        assert len(gateways.noted("files.starts")) == 1, "the other one has adopted its entry"
        assert two.cli("token", "revoke", made["id"]).returncode == 0
        for each in (one, two):
            until(lambda each=each: statuses(each, [made["token"]]) == {401}, "it is refused")
