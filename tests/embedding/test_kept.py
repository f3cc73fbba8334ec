"""What every `VectorCache` has to do, and what one does whose entries are rows."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from toolscript.embedding.sqlite_vector_cache import SqliteVectorCache
from toolscript.embedding.vector_cache import CachedVector, EmbeddingCache, VectorCache
from toolscript.storage.blob_store import BlobStore
from toolscript.storage.rows import ROW_BYTES

Make = Callable[[Path, str], VectorCache]


def rows(directory: Path, name: str) -> VectorCache:
    return SqliteVectorCache(BlobStore(directory / f"{name}.sqlite"))


CACHES: dict[str, Make] = {"one text": EmbeddingCache, "rows": rows}
SEED = np.random.default_rng(4)


@pytest.fixture(params=CACHES)
def make(request: pytest.FixtureRequest) -> Make:
    return CACHES[request.param]


def entry(digest: str = "d") -> CachedVector:
    return CachedVector(digest, SEED.standard_normal(8).astype(np.float32))


def bits(entries: dict[str, CachedVector]) -> dict[str, tuple[str, bytes]]:
    return {key: (entry.digest, entry.vector.tobytes()) for key, entry in entries.items()}


def test_what_is_saved_is_there_bit_for_bit_for_that_model(make: Make, tmp_path: Path) -> None:
    """skills:folders, cache:validity"""
    entries = {f"s__a\n#{number}": entry(str(number)) for number in range(400)}
    assert make(tmp_path, "x").save("m", entries)
    assert bits(make(tmp_path, "x").load("m")) == bits(entries)
    assert make(tmp_path, "x").load("other") == {}
    some = {each: entries[each].digest for each in list(entries)[:3]}
    assert bits(entries).items() >= bits(make(tmp_path, "x").load("m", some)).items()
    assert make(tmp_path, "x").load("m", some).keys() >= some.keys()
    assert make(tmp_path, "x").save("other", {"a": entry()})
    assert make(tmp_path, "x").load("m") == {}


def test_what_changed_is_replaced_and_what_is_gone_is_pruned(make: Make, tmp_path: Path) -> None:
    """skills:folders, cache:validity"""
    cache = make(tmp_path, "x")
    cache.save("m", {"a__1": entry("1"), "a__gone": entry(), "b__1": entry("theirs")})
    cache.save("m", {"a__1": entry("2")}, lambda each: each.startswith("b__"))
    found = {identifier: each.digest for identifier, each in cache.load("m").items()}
    assert found == {"a__1": "2", "b__1": "theirs"}


def test_what_other_sets_have_is_found_the_latest_first(make: Make, tmp_path: Path) -> None:
    """skills:folders, cache:incremental"""
    make(tmp_path, "one").save("m", {"a__1": entry("old"), "a__2": entry()})
    for path in tmp_path.iterdir():
        os.utime(path, (1, 1))
    make(tmp_path, "two").save("m", {"a__1": entry("new")})
    make(tmp_path, "three").save("other", {"a__3": entry()})
    wanted = {"a__1": "new", "a__2": "d", "a__3": "d"}
    found = make(tmp_path, "four").siblings("m", wanted)
    assert {identifier: each.digest for identifier, each in found.items()} == {
        "a__1": "new",
        "a__2": "d",
    }


def test_an_edit_costs_its_own_row(tmp_path: Path) -> None:
    """skills:folders: of a file of many vectors little is written anew."""
    path, cache = tmp_path / "x.sqlite", rows(tmp_path, "x")
    entries = {f"a__{number}": entry(str(number)) for number in range(40_000)}
    cache.save("m", entries)
    before = path.read_bytes()
    cache.save("m", entries | {"a__7": entry("new")})
    after = path.read_bytes()
    pages = range(0, len(after), 16_384)
    changed = [at for at in pages if after[at : at + 16_384] != before[at : at + 16_384]]
    assert len(pages) > 5 * len(changed)
    assert len(changed) * 16_384 < 2 * ROW_BYTES
