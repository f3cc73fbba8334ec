"""What `SqliteVectorCache` does with its files."""

import stat
from pathlib import Path

import numpy as np
import pytest

from toolscript.embedding.base import CachedVector
from toolscript.embedding.vector_cache import SqliteVectorCache

RANDOM = np.random.default_rng(3)


def entry(digest: str = "d") -> CachedVector:
    return CachedVector(digest, RANDOM.standard_normal(8).astype(np.float32))


@pytest.fixture
def cache(tmp_path: Path) -> SqliteVectorCache:
    return SqliteVectorCache(tmp_path / "not" / "yet" / "there" / "embeddings-0.sqlite")


@pytest.mark.requirement("cache:place", "cache:name")
def test_the_file_is_made_with_its_directories_for_its_owner(cache: SqliteVectorCache) -> None:
    assert cache.load("m") == {}
    assert not cache.path.parent.exists()
    assert cache.save("m", {"a__b": entry()})
    assert stat.S_IMODE(cache.path.stat().st_mode) == 0o600


@pytest.mark.requirement("cache:validity")
def test_a_damaged_byte_costs_its_vector(
    cache: SqliteVectorCache, caplog: pytest.LogCaptureFixture
) -> None:
    entries = {f"s__{number}": entry() for number in range(20)}
    cache.save("m", entries)
    data = cache.path.read_bytes()
    vector = entries["s__7"].vector.tobytes()
    cache.path.write_bytes(data.replace(vector, vector[:-1] + bytes([vector[-1] ^ 1])))
    assert cache.load("m").keys() == entries.keys() - {"s__7"}
    assert "1 damaged row" in caplog.text
    assert str(cache.path) in caplog.text
    cache.save("m", entries)
    assert cache.load("m").keys() == entries.keys()


@pytest.mark.requirement("cache:validity")
def test_a_file_that_is_no_database_is_empty_and_replaced(
    cache: SqliteVectorCache, caplog: pytest.LogCaptureFixture
) -> None:
    cache.save("m", {"s__t": entry()})
    for content in (b"", b"nonsense"):
        cache.path.write_bytes(content)
        assert cache.load("m") == {}
        assert "is damaged" in caplog.text
        caplog.clear()
        assert cache.save("m", {"s__t": entry()})
        assert cache.load("m").keys() == {"s__t"}
