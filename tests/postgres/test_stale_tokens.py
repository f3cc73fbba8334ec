"""Tokens while the database does not answer: known for a while, and then nobody is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.postgres_server import PostgresServer
from tests.support import until
from toolscript.config.access_tokens import TokenStore
from toolscript.errors import AccessError, DatabaseUnavailableError
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.key_value_store import DatabaseRecords
from toolscript.surfaces.server.authentication import ANYONE, TokenAuthenticator
from toolscript.surfaces.server.error_answers import error_response
from toolscript.types import EVERYTHING

MAX_AGE_S = 2.0


@pytest.mark.parametrize("has_token", [True, False])
def test_known_tokens_count_for_a_while_and_then_the_answer_is_503(
    connect: Callable[[], Database], postgres: PostgresServer, tmp_path: Path, *, has_token: bool
) -> None:
    database = connect()
    feed = ChangeFeed(database)
    records = DatabaseRecords(database, feed, "tokens", max_age_s=MAX_AGE_S)
    feed.start()
    records.load()
    store = TokenStore(tmp_path, "k", records)
    admit = TokenAuthenticator(store, "owner's key", open_to_all=True)
    secret, holder = "", ANYONE
    if has_token:
        token, secret = store.create(EVERYTHING)
        holder = token.id
    assert admit(secret).holder == holder
    postgres.stop()
    try:
        until(lambda: feed.age_s > MAX_AGE_S / 4, "the database is away")
        assert admit(secret).holder == holder
        until(lambda: feed.age_s > MAX_AGE_S, "what is known is too old")
        for given in (secret, "", "ts_unknown"):
            with pytest.raises(DatabaseUnavailableError) as unavailable:
                admit(given)
            answer = error_response(unavailable.value)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert admit.is_admitted(holder), "what is under way goes on"
    finally:
        postgres.start()
    until(lambda: feed.age_s < MAX_AGE_S, "it is back")
    assert admit(secret).holder == holder
    if has_token:
        with pytest.raises(AccessError):
            admit("ts_unknown")
