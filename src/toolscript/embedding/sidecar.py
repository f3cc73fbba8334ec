"""The cache's vectors once more, in a form that is mapped into memory instead of parsed.

``embeddings-<hash>.npy`` is a NumPy array float32 [n, dim], so anything can
read it, followed by a JSON object: which file it was derived from, and each
row's id, digest and time. It holds nothing of its own: where it does not fit
the file beside it, or itself, it is ignored and made anew.
"""

import hashlib
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import orjson

from toolscript.embedding.base import Vectors
from toolscript.storage.atomic_files import write_atomically

_LENGTH_BYTES = 8


class CachedVector(msgspec.Struct, frozen=True, gc=False):
    """One document's vector, float32 [dim], and the digest of the content it was computed from."""

    digest: str
    vector: Vectors
    timestamp: str = ""
    """When it was computed: ISO 8601, UTC; empty means now."""


Entries = Mapping[str, CachedVector]


def identity(status: os.stat_result) -> list[int]:
    """What tells one written file from any other: a rename keeps it, a new file changes it."""
    return [status.st_ino, status.st_size, status.st_mtime_ns]


def write(path: Path, derived_from: list[int], head: Mapping[str, str], entries: Entries) -> None:
    """Write the sidecar; ``head`` is what the file it derives from says about itself.

    Raises `OSError`.
    """
    array = io.BytesIO()
    np.lib.format.write_array(array, np.stack([each.vector for each in entries.values()]))
    rows = array.getvalue()
    index = orjson.dumps(
        {
            "derivedFrom": derived_from,
            "head": head,
            "rows": hashlib.sha256(rows).hexdigest(),
            "ids": list(entries),
            "hashes": [each.digest for each in entries.values()],
            "timestamps": [each.timestamp for each in entries.values()],
        }
    )
    size = len(index).to_bytes(_LENGTH_BYTES, "little")
    write_atomically(path, rows + index + hashlib.sha256(index).digest() + size)


def read(path: Path, derived_from: list[int]) -> tuple[dict[str, str], dict[str, CachedVector]]:
    """The head and the entries, the vectors mapped into memory.

    Raises `OSError` where it cannot be read, and `ValueError` where it is
    damaged or was derived from another file.
    """
    with path.open("rb") as file:
        mapped: Any = np.memmap(file, dtype=np.uint8, mode="r")
    index, end = _index(mapped)
    if index["derivedFrom"] != derived_from:
        raise ValueError("derived from another file")
    if hashlib.sha256(mapped[:end]).hexdigest() != index["rows"]:
        raise ValueError("wrong checksum")
    rows: list[Vectors] = list(np.asarray(np.load(path, mmap_mode="r"), dtype=np.float32))
    entries = {
        identifier: CachedVector(digest, vector, timestamp)
        for identifier, digest, vector, timestamp in zip(
            index["ids"], index["hashes"], rows, index["timestamps"], strict=True
        )
    }
    return index["head"], entries


def _index(mapped: Any) -> tuple[dict[str, Any], int]:
    """The trailing JSON, checked, and where it begins."""
    tail = _LENGTH_BYTES + hashlib.sha256().digest_size
    size = int.from_bytes(mapped[-_LENGTH_BYTES:].tobytes(), "little")
    start = len(mapped) - tail - size
    if start <= 0 or size <= 0:
        raise ValueError("cut short")
    index = mapped[start : start + size].tobytes()
    if hashlib.sha256(index).digest() != mapped[start + size : -_LENGTH_BYTES].tobytes():
        raise ValueError("wrong checksum")
    return cast("dict[str, Any]", orjson.loads(index)), start
