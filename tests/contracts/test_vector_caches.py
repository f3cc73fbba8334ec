"""What every `VectorCache` does, on every implementation."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from toolscript.embedding.base import CachedVector, VectorCache
from toolscript.embedding.json_vector_cache import JsonVectorCache
from toolscript.embedding.vector_cache import SqliteVectorCache

Make = Callable[[str], VectorCache]
RANDOM = np.random.default_rng(4)


@pytest.fixture(params=[JsonVectorCache, SqliteVectorCache])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Opens the cache of a set of documents, by its name."""
    suffix = "json" if request.param is JsonVectorCache else "sqlite"
    return lambda name: request.param(tmp_path / "caches" / f"embeddings-{name}.{suffix}")


def entry(digest: str = "d") -> CachedVector:
    return CachedVector(digest, RANDOM.standard_normal(8).astype(np.float32))


def bits(entries: Mapping[str, CachedVector]) -> dict[str, tuple[str, bytes]]:
    return {key: (entry.digest, entry.vector.tobytes()) for key, entry in entries.items()}


def digests(entries: Mapping[str, CachedVector]) -> dict[str, str]:
    return {key: entry.digest for key, entry in entries.items()}


@pytest.mark.requirement("cache:shape")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    entries=st.dictionaries(
        st.text(),
        st.builds(
            CachedVector,
            st.text("0123456789abcdef"),
            hnp.arrays(
                np.float32, 5, elements=st.floats(width=32, allow_nan=False, allow_infinity=False)
            ),
        ),
        max_size=5,
    ),
    model=st.text(st.characters(codec="utf-8")),
)
def test_what_is_saved_is_loaded_bit_for_bit(
    make: Make, entries: dict[str, CachedVector], model: str
) -> None:
    """cache:shape"""
    assert make("x").save(model, entries)
    loaded = make("x").load(model)
    assert bits(loaded) == bits(entries)
    assert all(entry.vector.dtype == np.float32 for entry in loaded.values())


def test_some_of_many_can_be_loaded(make: Make) -> None:
    """cache:shape"""
    entries = {f"s__a\n#{number}": entry(str(number)) for number in range(400)}
    make("x").save("m", entries)
    wanted = digests(dict(list(entries.items())[:3]))
    assert digests(make("x").load("m", wanted)) == wanted
    assert make("x").load("m", {"s__a\n#0": "another"}) == {}
    assert bits(make("x").load("m", digests(entries))) == bits(entries)


@pytest.mark.requirement("cache:validity")
def test_another_models_vectors_are_not_loaded_and_that_is_said(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """cache:validity"""
    make("x").save("m", {"a__1": entry()})
    with caplog.at_level(logging.WARNING):
        assert make("x").load("other") == {}
    assert "written by model 'm'" in caplog.text
    assert make("x").save("other", {"a__2": entry()}, keep=lambda _: True)
    assert make("x").load("other").keys() == {"a__2"}
    assert make("x").load("m") == {}


@pytest.mark.requirement("cache:validity", "cache:safe")
def test_what_changed_is_replaced_and_what_is_gone_is_pruned(make: Make) -> None:
    """cache:safe, cache:validity: what another process has saved may stay."""
    make("x").save("m", {"a__1": entry("1"), "a__gone": entry(), "b__1": entry("theirs")})
    make("x").save("m", {"a__1": entry("2")}, lambda each: each.startswith("b__"))
    assert digests(make("x").load("m")) == {"a__1": "2", "b__1": "theirs"}
    make("x").save("m", {}, lambda each: each.startswith("b__"))
    assert digests(make("x").load("m")) == {"b__1": "theirs"}


def test_vectors_of_another_length_replace_all(make: Make) -> None:
    """cache:validity: at an address there may be another model under the same name."""
    make("x").save("m", {"a__1": entry(), "b__1": entry()})
    longer = CachedVector("d", np.ones(9, np.float32))
    make("x").save("m", {"a__1": longer}, lambda _: True)
    assert bits(make("x").load("m")) == bits({"a__1": longer})
