"""Puts the search of skills together, and the pair of tools over files."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from toolscript.config.servers import Config
from toolscript.config.settings import PathSettings
from toolscript.embedding.loader import LazyModel
from toolscript.embedding.vector_cache import SqliteVectorCache, sqlite_cache
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.lexical.bm25f import LexicalSignal
from toolscript.retrieval.profiles import SearchProfile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.skills.folders import OWN, AddedFolders, SkillFolders
from toolscript.skills.scanner import SkillMode
from toolscript.skills.service import SkillService
from toolscript.skills.skill_feed import SkillFeed
from toolscript.skills.vector_pair import VectorPair
from toolscript.storage.blob_store import BlobStore


def skill_service(  # noqa: PLR0913, PLR0917 - its parts, each of another kind
    paths: PathSettings,
    profile: SearchProfile,
    config: Config,
    mode: SkillMode,
    model: LazyModel,
    environ: Mapping[str, str],
) -> SkillService:
    """Returns the search of skills.

    Args:
        paths: Have the data directory, and whether caches are used.
        profile: The search profile.
        config: Names folders of skills.
        mode: Whether folders are followed, looked into once, or left alone.
        model: Embeds passages.
        environ: The environment's variables.
    """
    home = Path(environ.get("HOME") or Path.home())
    homes = [*(source.parent for source in config.sources), home]
    folders = SkillFolders(AddedFolders.of(paths.data_dir), homes, OWN)
    folders.configure(config.skills, config.skills_problem)
    directory = paths.data_dir / "cache" / "skills"

    def name() -> str:
        return f"skills-{_hash(folders.wanted())}.sqlite"

    def blobs() -> BlobStore | None:
        return None if paths.no_cache else BlobStore(directory / name())

    def vectors() -> SqliteVectorCache | None:
        if paths.no_cache:
            return None
        return sqlite_cache(directory, name(), is_fallback=model.is_fallback)

    curves = None if paths.no_cache else paths.data_dir / "cache" / "calibration"
    semantic = SemanticSignal(model, vectors, curves, noun="passages")
    engine = SearchEngine(profile, LexicalSignal(), semantic if mode != "list_only" else None)
    return SkillService(engine, semantic, SkillFeed(folders, mode, blobs))


def vector_pair(paths: PathSettings, model: LazyModel) -> VectorPair:
    """Returns the pair of tools, over the working directory."""
    try:
        sandbox = Path.cwd()
    except OSError:  # the working directory was deleted
        sandbox = Path()
    name = f"vector-{_hash([sandbox])}.sqlite"
    directory = paths.data_dir / "cache" / "vector"

    def vectors() -> SqliteVectorCache | None:
        if paths.no_cache:
            return None
        return sqlite_cache(directory, name, is_fallback=model.is_fallback)

    store = None if paths.no_cache else BlobStore(paths.data_dir / "skills" / name)
    return VectorPair(sandbox, model, store, vectors)


def _hash(paths: Iterable[Path]) -> str:
    """Returns 16 hex digits that stand for some paths."""
    return hashlib.sha256("\0".join(map(str, paths)).encode(errors="replace")).hexdigest()[:16]
