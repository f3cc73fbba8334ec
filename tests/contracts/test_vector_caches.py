"""What every `VectorCache` does, on every implementation."""

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.postgres_server import free_port
from toolscript.embedding.base import CachedVector, VectorCache
from toolscript.embedding.json_vector_cache import JsonVectorCache
from toolscript.embedding.vector_cache import FALLBACK, SqliteVectorCache
from toolscript.postgres.database import Database
from toolscript.postgres.vector_cache import DatabaseVectorCache

Make = Callable[[str], VectorCache]
RANDOM = np.random.default_rng(4)


@pytest.fixture(params=[JsonVectorCache, SqliteVectorCache, DatabaseVectorCache])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Opens the cache of a set of documents, by its name."""
    if request.param is DatabaseVectorCache:
        connect: Callable[[], Database] = request.getfixturevalue("connect")
        database = connect()
        return lambda _: DatabaseVectorCache(database)
    suffix = "json" if request.param is JsonVectorCache else "sqlite"
    return lambda name: request.param(tmp_path / "caches" / f"embeddings-{name}.{suffix}")


files = pytest.mark.parametrize("make", [JsonVectorCache, SqliteVectorCache], indirect=True)
"""A test of caches that one set of documents has by itself."""
shared = pytest.mark.parametrize("make", [DatabaseVectorCache], indirect=True)
"""A test of caches that all sets of documents share."""


def path_of(cache: VectorCache) -> Path:
    assert isinstance(cache, JsonVectorCache | SqliteVectorCache)
    return cache.path


def entry(digest: str = "d") -> CachedVector:
    return CachedVector(digest, RANDOM.standard_normal(8).astype(np.float32))


def bits(entries: Mapping[str, CachedVector]) -> dict[str, tuple[str, bytes]]:
    return {key: (entry.digest, entry.vector.tobytes()) for key, entry in entries.items()}


def digests(entries: Mapping[str, CachedVector]) -> dict[str, str]:
    return {key: entry.digest for key, entry in entries.items()}


VECTORS = hnp.arrays(
    np.float32, 5, elements=st.floats(width=32, allow_nan=False, allow_infinity=False)
)


@files
@pytest.mark.requirement("cache:shape")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    entries=st.dictionaries(
        st.text(), st.builds(CachedVector, st.text("0123456789abcdef"), VECTORS), max_size=5
    ),
    model=st.text(st.characters(codec="utf-8")),
)
def test_what_is_saved_is_loaded_bit_for_bit(
    make: Make, entries: dict[str, CachedVector], model: str
) -> None:
    name = uuid4().hex  # the same key in the same file stands for the same vector
    assert make(name).save(model, entries)
    loaded = make(name).load(model)
    assert bits(loaded) == bits(entries)
    assert all(entry.vector.dtype == np.float32 for entry in loaded.values())


@pytest.mark.requirement("cache:shape")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    vectors=st.dictionaries(st.text("0123456789abcdef"), VECTORS, max_size=5),
    model=st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    name=st.text(),
)
def test_what_is_wanted_is_loaded_bit_for_bit(
    make: Make, vectors: dict[str, np.ndarray], model: str, name: str
) -> None:
    entries = {name + digest: CachedVector(digest, v) for digest, v in vectors.items()}
    make("x").save("another", {"a": CachedVector("0", np.ones(5, np.float32))})
    cache = make("x")
    stored = bits(entries)
    if isinstance(cache, DatabaseVectorCache):  # what an earlier example has stored stays
        stored |= bits(cache.load(model, digests(entries)))
    assert cache.save(model, entries)
    loaded = make("x").load(model, digests(entries))
    assert bits(loaded) == stored
    assert all(entry.vector.dtype == np.float32 for entry in loaded.values())


def test_some_of_many_can_be_loaded(make: Make) -> None:
    entries = {f"s__a\n#{number}": entry(str(number)) for number in range(400)}
    make("x").save("m", entries)
    wanted = digests(dict(list(entries.items())[:3]))
    assert digests(make("x").load("m", wanted)) == wanted
    assert make("x").load("m", {"s__a\n#0": "another"}) == {}
    assert bits(make("x").load("m", digests(entries))) == bits(entries)


@files
@pytest.mark.requirement("cache:validity")
def test_another_models_vectors_are_not_loaded_and_that_is_said(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    make("x").save("m", {"a__1": entry()})
    with caplog.at_level(logging.WARNING):
        assert make("x").load("other") == {}
    assert "written by model 'm'" in caplog.text
    assert make("x").save("other", {"a__2": entry()}, keep=lambda _: True)
    assert make("x").load("other").keys() == {"a__2"}
    assert make("x").load("m") == {}


@files
@pytest.mark.requirement("cache:validity", "cache:safe")
def test_what_changed_is_replaced_and_what_is_gone_is_pruned(make: Make) -> None:
    """cache:safe, cache:validity: what another process has saved may stay."""
    make("x").save("m", {"a__1": entry("1"), "a__gone": entry(), "b__1": entry("theirs")})
    make("x").save("m", {"a__1": entry("2")}, lambda each: each.startswith("b__"))
    assert digests(make("x").load("m")) == {"a__1": "2", "b__1": "theirs"}
    make("x").save("m", {}, lambda each: each.startswith("b__"))
    assert digests(make("x").load("m")) == {"b__1": "theirs"}


@files
@pytest.mark.requirement("cache:incremental")
def test_vectors_are_found_in_the_files_of_other_sets_of_documents(make: Make) -> None:
    """cache:incremental: those of the same model, the newest first."""
    make("one").save("m", {"a__1": entry("old"), "a__2": entry()})
    os.utime(path_of(make("one")), (1, 1))
    make("two").save("m", {"a__1": entry("new")})
    make("three").save("another", {"a__3": entry()})
    five = make("five")
    assert isinstance(five, JsonVectorCache | SqliteVectorCache)
    kind, above, below = type(five), five.path, five.path.parent / FALLBACK
    kind(below / f"embeddings-four{above.suffix}").save("m", {"a__4": entry()})
    for own in (five, kind(below / above.name)):
        found = own.load_from_other_caches("m")
        assert digests(found) == {"a__1": "new", "a__2": "d", "a__4": "d"}


@files
@pytest.mark.requirement("cache:safe")
def test_a_directory_that_cannot_be_made_is_a_warning_and_no_failure(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    path_of(make("x")).parent.write_bytes(b"")
    assert make("x").save("m", {"s__t": entry()}) is False
    assert make("x").load("m") == {}
    assert "cannot be written" in caplog.text


WRITER = """
import sys
from pathlib import Path
import numpy as np
from toolscript.embedding.base import CachedVector
from toolscript.embedding.json_vector_cache import JsonVectorCache
from toolscript.embedding.vector_cache import SqliteVectorCache
cache = globals()[sys.argv[1]](Path(sys.argv[2]))
for turn in range(20):
    vector = np.full(300, float(sys.argv[3]), dtype=np.float32)
    assert cache.save("m", {f"s__{n}": CachedVector(sys.argv[3], vector) for n in range(20)})
"""


@files
@pytest.mark.requirement("cache:safe")
def test_two_processes_that_write_at_once_leave_what_one_of_them_wrote(make: Make) -> None:
    cache = make("x")
    cache.save("m", {"s__t": CachedVector("d", np.ones(300, np.float32))})
    command = [sys.executable, "-c", WRITER, type(cache).__name__, str(path_of(cache))]
    writers = [subprocess.Popen([*command, number]) for number in ("1", "2")]
    while any(writer.poll() is None for writer in writers):
        assert len({each.digest for each in cache.load("m").values()}) == 1, "half was seen"
    assert [writer.wait() for writer in writers] == [0, 0]
    assert {each.digest for each in cache.load("m").values()} in ({"1"}, {"2"})


def test_vectors_of_another_length_replace_all(make: Make) -> None:
    """cache:validity: at an address there may be another model under the same name."""
    make("x").save("m", {"a__1": entry(), "b__1": entry()})
    longer = CachedVector("d", np.ones(9, np.float32))
    make("x").save("m", {"a__1": longer}, lambda _: True)
    assert bits(make("x").load("m", {"a__1": "d"})) == bits({"a__1": longer})
    if not isinstance(make("x"), DatabaseVectorCache):
        assert make("x").load("m").keys() == {"a__1"}


@shared
@pytest.mark.requirement("cache:validity", "cache:safe")
def test_what_any_catalogue_has_embedded_is_found_by_its_digest(make: Make) -> None:
    """cache:validity, cache:safe: under any id, by the same model only, for ever."""
    first = entry("1")
    make("x").save("m", {"a__1": first, "a__2": entry("2")})
    make("y").save("m", {"b__3": entry("3")})
    wanted = {"c__1": "1", "d__1": "1", "c__4": "4"}
    assert bits(make("y").load("m", wanted)) == bits({"c__1": first, "d__1": first})
    assert make("y").load("other", wanted) == {}
    assert make("y").load_from_other_caches("m", wanted) == {}
    assert make("y").save("m", {"c__1": entry("1")}), "the first vector of a digest counts"
    assert bits(make("x").load("m", {"a__1": "1"})) == bits({"a__1": first})


@shared
def test_what_was_not_used_for_half_a_year_is_deleted(
    make: Make, connect: Callable[[], Database]
) -> None:
    database = connect()
    make("x").save("m", {each: entry(each) for each in ("old", "used", "new")})
    database.run(
        lambda c: c.execute(
            "update toolscript.embedding set used_at = now() - interval '181 days' "
            "where digest <> 'new'"
        )
    )
    assert make("x").load("m", {"a": "used"})
    make("x").save("m", {"a": entry("another")})
    wanted = {each: each for each in ("old", "used", "new", "another")}
    assert make("x").load("m", wanted).keys() == {"used", "new", "another"}


def test_a_database_that_is_gone_is_logged_and_not_raised(caplog: pytest.LogCaptureFixture) -> None:
    database = Database(f"postgresql://nobody@127.0.0.1:{free_port()}/none")
    cache = DatabaseVectorCache(database)
    assert cache.load("m", {"a": "1"}) == {}
    assert not cache.save("m", {"a": entry("1")})
    assert "cannot be read now" in caplog.text
    assert "cannot be written now" in caplog.text
    database.close()


@shared
def test_what_is_known_to_be_stored_is_not_written_again(
    make: Make, connect: Callable[[], Database]
) -> None:
    entries = {str(number): entry(str(number)) for number in range(3)}
    cache = make("x")
    cache.save("m", entries)
    connect().run(lambda c: c.execute("delete from toolscript.embedding"))
    cache.save("m", entries | {"3": entry("3")})
    found = make("x").load("m", {each: each for each in "0123"})
    assert found.keys() == {"3"}
