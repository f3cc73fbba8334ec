"""What a test has another process do."""

from pathlib import Path

from toolscript.embedding.loader import LazyModel, load_model
from toolscript.embedding.vector_cache import SqliteVectorCache
from toolscript.skills.vector_pair import VectorPair


def update_many(sandbox: Path, paths: list[str]) -> None:
    """Update these files, one after the other, in the index beside the sandbox."""
    beside = sandbox.parent
    model = LazyModel(lambda: load_model("bundled", "bundled", 1))
    cache = SqliteVectorCache(beside / "cache" / "v.sqlite")
    index = VectorPair(sandbox, model, lambda: cache, beside / "vector.json")
    for path in paths:
        if index.VectorUpdate(path) != "OK":
            raise SystemExit(1)
