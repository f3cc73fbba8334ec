"""Session ids: what they say, and who can read them."""

import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscript.config.secret_key import SecretKey
from toolscript.errors import InputError
from toolscript.surfaces.mcp.session_ids import (
    LIFETIME_S,
    MAX_ID_CHARS,
    MAX_REMEMBERED,
    LatestSessions,
    Message,
    SessionId,
    SessionIds,
)

OLD, NEW = "a" * 32, "b" * 32


def test_every_gateway_with_the_key_reads_an_id() -> None:
    one, two = SessionIds(SecretKey(OLD)), SessionIds(SecretKey(OLD))
    issued = one.issue("search", "ana", asks_user=True)
    read = two.read(issued)
    assert read is not None
    assert (read.replica, read.exposure, read.holder) == (one.replica, "search", "ana")
    assert read.asks_user
    assert read.replica != two.replica
    assert read.is_for("search", "ana")
    assert not read.is_for("all", "ana")
    assert not read.is_for("search", "bo")
    assert "ana" not in issued
    assert len(one.issue("two-phase", "h" * 64, asks_user=True)) <= MAX_ID_CHARS
    assert one.issue("search", "ana", asks_user=True) != issued


@pytest.mark.parametrize(
    ("keys", "is_read"),
    [((OLD,), True), ((NEW,), False), ((NEW, OLD), True), ((NEW, "c" * 32), False)],
)
def test_the_previous_key_counts_as_well(keys: tuple[str, ...], *, is_read: bool) -> None:
    issued = SessionIds(SecretKey(OLD)).issue("search", "ana", asks_user=False)
    assert (SessionIds(SecretKey(*keys)).read(issued) is not None) is is_read


@pytest.mark.parametrize(("age", "is_read"), [(0, True), (LIFETIME_S + 1, False)])
def test_an_id_expires(age: int, *, is_read: bool) -> None:
    class Earlier(SecretKey):
        """Seals an id as it was made some time ago."""

        def seal(self, content: bytes, purpose: bytes) -> bytes:
            issued = msgspec.json.decode(content, type=SessionId)
            earlier = msgspec.structs.replace(issued, created=int(time.time()) - age)
            return super().seal(msgspec.json.encode(earlier), purpose)

    issued = SessionIds(Earlier(OLD)).issue("search", "ana", asks_user=False)
    assert (SessionIds(SecretKey(OLD)).read(issued) is not None) is is_read


@given(st.integers(0, 400), st.integers(1, 63))
def test_a_changed_id_counts_for_nothing(place: int, change: int) -> None:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    ids = SessionIds(SecretKey(OLD))
    issued = ids.issue("search", "ana", asks_user=False)
    place %= len(issued) - 1  # the last character may carry bits of padding
    other = alphabet[(alphabet.index(issued[place]) + change) % len(alphabet)]
    assert ids.read(issued[:place] + other + issued[place + 1 :]) is None


@given(st.text(max_size=600))
def test_any_text_is_no_id(text: str) -> None:
    assert SessionIds(SecretKey(OLD)).read(text) is None


def test_what_is_sealed_for_something_else_is_no_id() -> None:
    key = SecretKey(OLD)
    assert key.read(key.seal(b"x", b"login"), b"login") == b"x"
    assert key.read(key.seal(b"x", b"login"), b"mcp-session-id") is None


def test_the_longest_unused_foreign_session_is_forgotten() -> None:
    ended: list[str] = []
    sessions = LatestSessions(ended.append)
    first, second = sessions.get("first"), sessions.get("second")
    assert sessions.get("first") is first
    for number in range(MAX_REMEMBERED - 1):
        sessions.get(str(number))
    assert ended == [second.id]


@pytest.mark.parametrize(
    ("body", "method", "asks_user"),
    [
        (
            b'{"jsonrpc":"2.0","method":"x","params":{"capabilities":{"elicitation":{}}}}',
            True,
            True,
        ),
        (b'{"jsonrpc":"2.0","method":"x","params":{"capabilities":{}}}', True, False),
        (
            b'{"jsonrpc":"2.0","method":"x","params":{"capabilities":{"elicitation":{"url":{}}}}}',
            1,
            False,
        ),
        (
            b'{"jsonrpc":"2.0","method":"x","params":{"capabilities":{"elicitation":3}}}',
            True,
            False,
        ),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', False, False),
    ],
)
def test_a_message_tells_what_a_gateway_needs(
    body: bytes, *, method: bool, asks_user: bool
) -> None:
    message = Message.of(body)
    assert message is not None
    assert (bool(message.method), message.asks_user) == (bool(method), asks_user)


@pytest.mark.parametrize("body", [b"", b"x", b"\xff"])
def test_what_is_no_message_is_left_to_the_sdk(body: bytes) -> None:
    assert Message.of(body) is None


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"[" * 100_000, "Expected `object`, got `array`"),
        (b"{}", "Object missing required field `jsonrpc`"),
        (b'{"jsonrpc":"1.0","method":"ping"}', "Invalid enum value '1.0' - at `$.jsonrpc`"),
        (b'{"jsonrpc":"2.0","method":1}', "Expected `str`, got `int` - at `$.method`"),
        (b'{"jsonrpc":"2.0","method":"ping","params":[]}', "got `array` - at `$.params`"),
        (b'{"jsonrpc":"2.0","id":1}', "its method is missing"),
    ],
)
def test_other_json_than_a_message_is_told_in_one_line(body: bytes, why: str) -> None:
    with pytest.raises(InputError, match=r"^expected one JSON object with jsonrpc") as told:
        Message.of(body)
    assert str(told.value).endswith(why)
