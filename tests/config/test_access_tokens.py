"""Tokens: made, kept as hashes, revoked, expired: http:others."""

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from toolscript.config.access_tokens import TokenStore, grant_for
from toolscript.errors import InputError, TokenFileError, UnknownNameError
from toolscript.types import EVERYTHING, Grant

GIT = Grant(servers=("git",))


@pytest.fixture
def store(tmp_path: Path) -> TokenStore:
    return TokenStore(tmp_path / "data", "0123456789abcdef")


def granted(store: TokenStore, secret: str) -> Grant | None:
    found = store.find(secret)
    return found.grant if found else None


def test_a_token_is_worth_its_grant_and_is_not_kept(store: TokenStore) -> None:
    made, secret = store.create(GIT, "ana")
    assert granted(store, secret) == GIT
    assert [token.name for token in store.all()] == ["ana"]
    assert secret not in store.path.read_text("utf-8")
    assert made.hash not in secret
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("guess", ["", "ts_", "x", "ts_" + "A" * 43, "\ud800", "é"])
def test_another_token_is_worth_nothing(store: TokenStore, guess: str) -> None:
    store.create(EVERYTHING)
    assert store.find(guess) is None


def test_the_hash_is_no_token(store: TokenStore) -> None:
    """http:others: who can read the file gets nothing from it."""
    made, _ = store.create(EVERYTHING)
    assert store.find(made.hash) is None


def test_what_another_process_makes_or_revokes_counts_at_once(store: TokenStore) -> None:
    other = TokenStore(store.path.parent.parent, "0123456789abcdef")
    assert store.all() == ()
    made, secret = other.create(GIT)
    assert granted(store, secret) == GIT
    _, second = store.create(EVERYTHING)
    assert granted(other, second) == EVERYTHING
    other.revoke(made.id)
    assert store.find(secret) is None
    assert granted(store, second) == EVERYTHING


def test_only_what_is_there_can_be_revoked(store: TokenStore) -> None:
    made, _ = store.create(GIT)
    with pytest.raises(UnknownNameError, match=rf"'nope'; there are: {made.id}"):
        store.revoke("nope")


def test_a_token_expires(store: TokenStore) -> None:
    made, secret = store.create(GIT, days=1)
    assert granted(store, secret) == GIT
    end = datetime.fromisoformat(made.expires)
    assert made.is_valid(end - timedelta(seconds=1))
    assert not made.is_valid(end)
    past = msgspec.structs.replace(made, expires=datetime.now(UTC).isoformat())
    store.path.write_bytes(msgspec.json.encode({"version": 1, "tokens": [past]}))
    assert store.find(secret) is None


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"version": 1}', b"\xff", b"[" * 9999])
def test_a_damaged_file_lets_nobody_in(store: TokenStore, damage: bytes) -> None:
    _, secret = store.create(EVERYTHING)
    store.path.write_bytes(damage)
    for _ in range(2):
        with pytest.raises(TokenFileError, match="no caller is let in"):
            store.find(secret)


@pytest.mark.parametrize("tool", ["git", "git__", "__status", "*"])
def test_a_tool_that_is_no_id_is_refused(tool: str) -> None:
    with pytest.raises(InputError, match="expected an id such as git__status"):
        grant_for((), (tool,))


def test_with_nothing_named_everything_is_granted() -> None:
    assert grant_for((), ()) == EVERYTHING
    grant = Grant(servers=("git",), tools=("fs__read_*",))
    assert grant_for(("git",), ("fs__read_*",)) == grant == grant_for(("git",), ("fs:read_*",))
