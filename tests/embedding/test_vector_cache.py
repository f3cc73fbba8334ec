"""What `SqliteVectorCache` does with its files."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from toolscript.embedding.base import CachedVector
from toolscript.embedding.vector_cache import FALLBACK, SqliteVectorCache

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


@pytest.mark.requirement("cache:safe")
def test_a_directory_that_cannot_be_made_is_a_warning_and_no_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = SqliteVectorCache(tmp_path / "file" / "embeddings.sqlite")
    assert cache.save("m", {"s__t": entry()}) is False
    assert cache.load("m") == {}
    assert "cannot be written" in caplog.text


WRITER = """
import sys
from pathlib import Path
import numpy as np
from toolscript.embedding.base import CachedVector
from toolscript.embedding.vector_cache import SqliteVectorCache
cache = SqliteVectorCache(Path(sys.argv[1]))
for turn in range(20):
    vector = np.full(300, float(sys.argv[2]), dtype=np.float32)
    assert cache.save("m", {f"s__{n}": CachedVector(sys.argv[2], vector) for n in range(20)})
"""


@pytest.mark.requirement("cache:safe")
def test_two_processes_that_write_at_once_leave_what_one_of_them_wrote(
    cache: SqliteVectorCache,
) -> None:
    cache.save("m", {"s__t": CachedVector("d", np.ones(300, np.float32))})
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(cache.path), number])
        for number in ("1", "2")
    ]
    while any(writer.poll() is None for writer in writers):
        assert len({entry.digest for entry in cache.load("m").values()}) == 1
    assert [writer.wait() for writer in writers] == [0, 0]
    assert {entry.digest for entry in cache.load("m").values()} in ({"1"}, {"2"})


@pytest.mark.requirement("cache:incremental")
def test_vectors_are_found_in_the_files_of_other_sets_of_documents(tmp_path: Path) -> None:
    """cache:incremental: those of the same model, the newest first."""

    def cache(*names: str) -> SqliteVectorCache:
        return SqliteVectorCache(tmp_path.joinpath(*names).with_suffix(".sqlite"))

    cache("one").save("m", {"a__1": entry("old"), "a__2": entry()})
    os.utime(tmp_path / "one.sqlite", (1, 1))
    cache("two").save("m", {"a__1": entry("new")})
    cache("three").save("another", {"a__3": entry()})
    cache(FALLBACK, "four").save("m", {"a__4": entry()})
    for own in (cache("five"), cache(FALLBACK, "five")):
        entries = own.load_from_other_caches("m")
        assert {identifier: each.digest for identifier, each in entries.items()} == {
            "a__1": "new",
            "a__2": "d",
            "a__4": "d",
        }
    assert cache("five").load_from_other_caches("m", {"a__2": "d"}).keys() == {"a__2"}
