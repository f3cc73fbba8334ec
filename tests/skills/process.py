"""What a test has another process do."""

from pathlib import Path

from toolscript.embedding.loader import LazyModel, load_model
from toolscript.embedding.vector_cache import SqliteVectorCache
from toolscript.skills.vector_pair import VectorPair
from toolscript.storage.blob_store import BlobStore


def update_many(sandbox: Path, paths: list[str]) -> None:
    """Update these files, one after the other, in the index beside the sandbox."""
    model = LazyModel(lambda: load_model("bundled", "bundled", 1))
    index = VectorPair(
        sandbox,
        model,
        BlobStore(sandbox.parent / "vector.sqlite"),
        lambda: SqliteVectorCache(sandbox.parent / "cache" / "v.sqlite"),
    )
    for path in paths:
        if index.VectorUpdate(path) != "OK":
            raise SystemExit(1)
