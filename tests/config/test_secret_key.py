"""Values that only gateways with the same key can read."""

import stat
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscript.config.secret_key import SecretKey, oauth_key
from toolscript.config.settings import ServerSettings

OLD, NEW, PURPOSE = "a" * 32, "b" * 32, b"test"


class Value(msgspec.Struct, array_like=True):
    name: str


def read(text: str, *keys: str, purpose: bytes = PURPOSE) -> str | None:
    value = SecretKey(*keys or (OLD,)).read_value(text, purpose, Value, 512)
    return value.name if value else None


def seal(name: str = "ana") -> str:
    return SecretKey(OLD).seal_value(Value(name), PURPOSE)


def test_a_value_is_read_for_its_purpose_alone() -> None:
    assert read(seal()) == "ana"
    assert read(seal(), purpose=b"other") is None
    assert read(seal("x" * 600)) is None, "it is too long"
    assert "ana" not in seal()
    assert seal() != seal()


@pytest.mark.parametrize(
    ("keys", "is_read"),
    [((OLD,), True), ((NEW,), False), ((NEW, OLD), True), ((NEW, "c" * 32), False)],
)
def test_the_previous_key_counts_as_well(keys: tuple[str, ...], *, is_read: bool) -> None:
    assert (read(seal(), *keys) is not None) is is_read


@given(st.integers(0, 400), st.integers(1, 63))
def test_a_changed_value_counts_for_nothing(place: int, change: int) -> None:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    sealed = seal()
    place %= len(sealed) - 1  # the last character may carry bits of padding
    other = alphabet[(alphabet.index(sealed[place]) + change) % len(alphabet)]
    assert read(sealed[:place] + other + sealed[place + 1 :]) is None


@given(st.text(max_size=600))
def test_any_other_text_counts_for_nothing(text: str) -> None:
    assert read(text) is None


def test_a_gateway_without_a_key_keeps_one_that_its_owner_alone_reads(tmp_path: Path) -> None:
    settings = ServerSettings()
    sealed = oauth_key(settings, tmp_path, "c").seal(b"x", PURPOSE)
    [path] = (tmp_path / "keys").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert oauth_key(settings, tmp_path, "c").read(sealed, PURPOSE) == b"x"
    path.write_text("damaged", "utf-8")
    assert oauth_key(settings, tmp_path, "c").read(sealed, PURPOSE) is None


def test_where_no_key_can_be_kept_there_is_one_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "keys").write_text("no folder", "utf-8")
    key = oauth_key(ServerSettings(), tmp_path, "c")
    assert key.read(key.seal(b"x", PURPOSE), PURPOSE) == b"x"
    assert "cannot be written" in caplog.text
