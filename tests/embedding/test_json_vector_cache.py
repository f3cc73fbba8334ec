import hashlib
import json
import logging
import re
import stat
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toolscript.embedding.base import CachedVector
from toolscript.embedding.json_vector_cache import JsonVectorCache

SEED = np.random.default_rng(3)


def entry(digest: str = "d") -> CachedVector:
    return CachedVector(digest, SEED.standard_normal(8).astype(np.float32))


def bits(entries: Mapping[str, CachedVector]) -> dict[str, tuple[str, bytes]]:
    return {key: (entry.digest, entry.vector.tobytes()) for key, entry in entries.items()}


@pytest.fixture
def cache(tmp_path: Path) -> JsonVectorCache:
    return JsonVectorCache(tmp_path / "embeddings" / "embeddings-0123456789abcdef.json")


@pytest.mark.requirement("cache:name", "cache:place")
def test_the_file_is_named_by_the_hash_and_made_with_its_directories(tmp_path: Path) -> None:
    directory = tmp_path / "not" / "yet" / "there"
    cache = JsonVectorCache(directory / "embeddings-0123456789abcdef.json")
    assert cache.load("m") == {}
    assert not directory.exists()
    assert cache.save("m", {"a__b": entry()})
    assert [p.name for p in directory.glob("*.json")] == ["embeddings-0123456789abcdef.json"]
    assert stat.S_IMODE(cache.path.stat().st_mode) == 0o600


@pytest.mark.requirement("cache:shape")
def test_the_file_has_the_shape_of_the_specification(cache: JsonVectorCache) -> None:
    vector = np.array([0.5, -0.25], dtype=np.float32)
    cache.save("model@1", {"b__t": CachedVector("beef", vector), "a__t": CachedVector("", vector)})
    document: dict[str, Any] = json.loads(cache.path.read_bytes())
    assert list(document) == ["version", "model", "configHash", "checksum", "embeddings"]
    assert document["version"] == "3"
    assert document["model"] == "model@1"
    assert document["configHash"] == "0123456789abcdef"
    assert list(document["embeddings"]) == ["a__t", "b__t"]
    written = document["embeddings"]["b__t"]
    assert written.keys() == {"embedding", "hash", "timestamp"}
    assert (written["embedding"], written["hash"]) == ([0.5, -0.25], "beef")
    assert datetime.fromisoformat(written["timestamp"]).tzinfo is not None
    body = cache.path.read_bytes().split(b',"embeddings":', 1)[1][:-1]
    assert document["checksum"] == hashlib.sha256(body).hexdigest()


@pytest.mark.requirement("cache:validity")
def test_a_file_truncated_at_any_length_is_empty_and_never_fails(cache: JsonVectorCache) -> None:
    cache.save("m", {f"s__{number}": entry() for number in range(3)})
    whole = cache.path.read_bytes()
    for length in range(len(whole)):
        cache.path.write_bytes(whole[:length])
        assert cache.load("m") == {}, length
    cache.path.write_bytes(whole)
    assert len(cache.load("m")) == 3


def test_a_changed_byte_anywhere_never_yields_another_vector(cache: JsonVectorCache) -> None:
    cache.save("m", {f"s__{number}": entry() for number in range(3)})
    good = bits(cache.load("m"))
    whole = cache.path.read_bytes()
    for at in range(len(whole)):
        for byte in (whole[at] ^ 1, 0xFF):
            cache.path.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
            assert bits(cache.load("m")) in ({}, good), at


# Model asked for, what is replaced in the file, by what, and what the warning says.
WARNED: dict[str, tuple[str, bytes, bytes, str]] = {
    "another model": ("m2", rb"^", b"", "written by model 'm', now 'm2'"),
    "another version": ("m", b'"version":"3"', b'"version":"0"', "version '0', expected '3'"),
    "a wrong checksum": ("m", rb'"hash":"d"', b'"hash":"e"', "wrong checksum"),
    "no JSON": ("m", rb"^.*$", b"nonsense", "is damaged"),
    "an empty file": ("m", rb"^.*$", b"", "is damaged"),
    "a list": ("m", rb"^.*$", b"[]", "is damaged"),
    "a number": ("m", rb"^.*$", b"7", "is damaged"),
}


@pytest.mark.parametrize("case", WARNED)
def test_a_file_that_does_not_fit_is_ignored_with_a_warning_and_replaced(
    cache: JsonVectorCache, caplog: pytest.LogCaptureFixture, case: str
) -> None:
    model, old, new, message = WARNED[case]
    cache.save("m", {"s__t": entry("d")})
    assert cache.load("m").keys() == {"s__t"}
    cache.path.write_bytes(re.sub(old, new, cache.path.read_bytes()))
    with caplog.at_level(logging.WARNING):
        assert cache.load(model) == {}
    assert len(caplog.records) == 1
    assert message in caplog.text
    assert str(cache.path) in caplog.text
    cache.save(model, {"s__u": entry()})
    assert cache.load(model).keys() == {"s__u"}


@pytest.mark.parametrize(
    "body",
    ["null", "[]", "7", '{"a":[]}', '{"a":{"hash":"d"}}', '{"a":{"hash":"d","embedding":["x"]}}'],
)
def test_a_right_checksum_over_a_wrong_shape_is_damage_too(
    cache: JsonVectorCache, body: str
) -> None:
    checksum = hashlib.sha256(body.encode()).hexdigest()
    cache.path.parent.mkdir(parents=True)
    cache.path.write_text(
        f'{{"version":"3","model":"m","checksum":"{checksum}","embeddings":{body}}}'
    )
    assert cache.load("m") == {}


def test_the_time_of_computing_stays(cache: JsonVectorCache) -> None:
    cache.save("m", {"a__1": entry(), "a__2": entry()})
    document: dict[str, Any] = json.loads(cache.path.read_bytes())
    document["embeddings"]["a__1"]["timestamp"] = "2020-01-01T00:00:00+00:00"
    body = json.dumps(document.pop("embeddings"), separators=(",", ":"))
    document["checksum"] = hashlib.sha256(body.encode()).hexdigest()
    head = json.dumps(document, separators=(",", ":"))
    cache.path.write_text(f'{head[:-1]},"embeddings":{body}}}', "utf-8")
    cache.save("m", cache.load("m") | {"a__3": entry()})
    embeddings = json.loads(cache.path.read_bytes())["embeddings"]
    times = {key: each["timestamp"][:4] for key, each in embeddings.items()}
    assert times["a__1"] == "2020"
    assert times["a__2"] > "2020"
