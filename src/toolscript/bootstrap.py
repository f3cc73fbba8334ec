"""Builds the application from the settings; the only module that names concrete classes.

Nothing is loaded or connected here; what is expensive is imported where it is
first needed.
"""

import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from toolscript.app.activity_recorder import ActivityRecorder
from toolscript.app.application import App
from toolscript.app.builtin_tools import vector_tools
from toolscript.app.call_approvals import Approvals, RememberedAnswers
from toolscript.app.kept_questions import KeptQuestions
from toolscript.config import locations
from toolscript.config import servers as configuration
from toolscript.config.follower import Follower
from toolscript.config.servers import Config
from toolscript.config.settings import Settings
from toolscript.config.trust import TrustStore
from toolscript.embedding.base import VectorCache, Vectors
from toolscript.embedding.json_vector_cache import JsonVectorCache
from toolscript.embedding.loader import Choice, LazyModel, lazy
from toolscript.embedding.vector_cache import FALLBACK, SqliteVectorCache
from toolscript.errors import ConfigError, ModelError
from toolscript.gateway.base import IMPORTING, Connect
from toolscript.gateway.catalogue import Catalogue, ServerEntry
from toolscript.gateway.definitions.pins import DefinitionPins
from toolscript.gateway.gateway import Gateway
from toolscript.gateway.snapshot import SnapshotStore
from toolscript.graph.graph_store import GraphStore
from toolscript.graph.learning import Learning
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.lexical.bm25f import LexicalSignal
from toolscript.retrieval.profiles import search_profile, skills_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.retrieval.stored_search import StoredSearch
from toolscript.skills.folders import AddedFolders, SkillFolders
from toolscript.skills.scanner import SkillMode
from toolscript.skills.service import SkillService
from toolscript.skills.skill_feed import SkillFeed
from toolscript.skills.vector_pair import VectorPair
from toolscript.storage.activity_log import ActivityLog
from toolscript.storage.atomic_files import check_owner
from toolscript.storage.base import Records
from toolscript.storage.blob_store import BlobStore
from toolscript.storage.file_records import FileRecords
from toolscript.types import ServerSpec

if TYPE_CHECKING:
    from toolscript.postgres.shared_stores import Shared

log = logging.getLogger(__name__)
_FOLDERS = {"answers": "permissions", "questions": "questions"}
"""Where the data directory has the files of a store."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """How much of the outside world the application may use."""

    start: Literal["configured", "all", "needed"] = "configured"
    """Of the servers that the snapshot knows, which are started before they are needed."""
    only: str | None = None
    """Connect to no other server than this."""
    use_snapshot: bool = True
    """Answer from the snapshot until the servers say otherwise."""
    embed: bool = True
    """Embed the tools; without, they are searched by words, or only listed."""
    follow: bool = False
    """Take over the configuration whenever its files change."""
    at_home: bool = False
    """Leave where it was started out of account: servers whose entry names no directory start in
    the user's home directory, which is also the project of callers that name none."""
    skills: SkillMode = "watch"
    """Follow the folders of skills, look into them once, or leave them alone."""
    model: LazyModel | None = None
    """The settings' model, where something has begun to load it; None makes it."""


def application(
    settings: Settings,
    config: Config | None = None,
    wiring: Wiring | None = None,
    environ: Mapping[str, str] = os.environ,
    shared: "Shared | None" = None,
) -> App:
    """Returns an application for these settings; connects to no server before it runs.

    ``config`` is found as ``settings`` and ``environ`` say where it is None; ``wiring`` says which
    parts of the application are used, all by default; ``shared`` is what `open_shared` returned,
    which is called where it was not. Raises `ConfigError` if the configuration or the data
    directory cannot be used, and what `open_shared` raises.
    """
    check_owner(settings.paths.data_dir)
    wiring = wiring or Wiring()
    config = config or _configuration(settings, environ)
    shared = shared or open_shared(settings)

    def records(store: str, suffix: str) -> Records:
        files = FileRecords(settings.paths.data_dir / _FOLDERS[store], suffix)
        return shared.records(store) if shared else files

    snapshots = SnapshotStore(settings.paths.data_dir / "cache" / "catalogue", config.key)
    known = snapshots.load(config.servers) if wiring.use_snapshot else Catalogue({})
    replication = shared and shared.replication
    if replication is not None:
        known = Catalogue.of(
            {**known.servers, **replication.catalogue.load(config.servers).servers}.values()
        )
    model = wiring.model or lazy(
        Choice(directory=settings.paths.data_dir / "models", **asdict(settings.embedding))
    )
    pins = DefinitionPins(
        settings.paths.data_dir,
        config.key,
        review_new=settings.calls.new_tools == "review",
        embed=lambda texts: _embedded(model, texts),
        records=shared and shared.records("pins"),
    )
    folder = _home(environ) if wiring.at_home else ""
    gateway = Gateway(
        config,
        known,
        lambda: _connect(settings, config.key, pins, shared and shared.logins, folder),
        pins,
        starts=_starting(settings, wiring),
        idle_s=settings.gateway.idle_timeout_s,
        max_processes=settings.gateway.max_processes,
        project=folder or _here(),
        only=wiring.only,
        ownership=replication and replication.leases,
        shared=replication and replication.catalogue,
        forward=replication and replication.forward,
        logs=settings.paths.data_dir / "logs" / "servers" / config.key,
    )
    curves = None if settings.paths.no_cache else settings.paths.data_dir / "cache" / "calibration"
    learning = _learning(settings, config, shared)
    semantic = SemanticSignal(
        model,
        lambda: _embeddings(settings, gateway.config, model, shared),
        curves,
        usage=learning and learning.usage,
    )
    if learning is not None:
        learning.embed = semantic.embed_query
    profile = search_profile(
        settings.search.alpha, settings.search.limit, settings.search.threshold
    )
    meaning = semantic if wiring.embed else None
    stored = _stored_search(settings, shared, meaning, learning)

    def accepted_at(identifier: str) -> int:
        return gateway.catalogue.accepted_at(identifier)  # the latest catalogue's

    engine = SearchEngine(
        profile, LexicalSignal(), meaning, learning, stored, accepted_at=accepted_at
    )
    return App(
        gateway,
        engine,
        semantic,
        snapshots,
        _skill_service(settings, config, model, wiring, environ),
        builtin_tools=vector_tools(
            _vector_pair(settings, model), listed=settings.paths.sandbox is not None
        ),
        follower=_follower(settings, config, environ) if wiring.follow else None,
        learning=learning,
        approvals=Approvals(
            RememberedAnswers(records("answers", f"-{config.key}.json")),
            settings.calls.approval_timeout_s,
        ),
        activity=ActivityRecorder(
            shared.activity
            if shared
            else ActivityLog(settings.paths.data_dir / "activity", config.key),
            keep_arguments=settings.calls.log_arguments,
        ),
        questions=KeptQuestions(
            records("questions", f"-{config.key}.jsonl"), _place_of_questions(settings, config)
        ),
        close=shared and shared.close,
        database=replication and replication.state,
    )


def open_shared(settings: Settings) -> "Shared | None":
    """Connects to the database that the settings name; returns None if they name none.

    Raises `ConfigError` if it cannot be used, and `DatabaseUnavailableError`.
    """
    if settings.database.url is None:
        return None
    from toolscript.postgres.shared_stores import shared_of  # noqa: PLC0415 - most have no database

    shared = shared_of(settings)
    shared.open()
    return shared


def _stored_search(
    settings: Settings,
    shared: "Shared | None",
    semantic: SemanticSignal | None,
    learning: Learning | None,
) -> StoredSearch | None:
    """Returns the search in the database; None if searches look in memory, as in commands."""
    if settings.database.candidates == "memory":
        return None
    if shared is None:
        raise ConfigError("TOOLSCRIPT_CANDIDATES is database, which needs TOOLSCRIPT_DATABASE too")
    if shared.replication is None:
        return None
    from toolscript.postgres.large_catalogue import LargeCatalogue  # noqa: PLC0415 - most have none

    catalogue = LargeCatalogue(
        shared.database, shared.feed, shared.catalogue, shared.replication.leases
    )
    catalogue.open()
    if not catalogue.is_built:
        raise ConfigError(
            f"TOOLSCRIPT_CANDIDATES is database, but the catalogue {shared.catalogue} has no "
            "index; make one with: toolscript database rebuild"
        )
    return StoredSearch(catalogue, semantic, learning)


def _place_of_questions(settings: Settings, config: Config) -> str:
    if settings.database.url is not None:
        return "the database"
    return str(settings.paths.data_dir / "questions" / f"questions-{config.key}.jsonl")


def _embedded(model: LazyModel, texts: Sequence[str]) -> Sequence[Vectors]:
    """Returns a vector for each text; nothing if no model works."""
    encoder = model.get().encoder
    if encoder is None:
        return []
    try:
        return list(encoder.documents(texts))
    except ModelError:  # an embedding server that does not answer: words have to do
        return []


def _starting(settings: Settings, wiring: Wiring) -> Callable[[ServerSpec, ServerEntry], bool]:
    """Returns which of the servers that are known are started before they are needed."""

    def starts(spec: ServerSpec, known: ServerEntry) -> bool:
        if wiring.start != "configured":
            return wiring.start == "all"
        return known.state != "ready" or (spec.start or settings.gateway.start) == "eager"

    return starts


def _home(environ: Mapping[str, str]) -> str:
    """Returns the home directory; empty if there is none."""
    home = environ.get("HOME") or str(Path.home())
    return home if Path(home).is_dir() else ""


def _here() -> str:
    """Returns the working directory; empty if it is gone."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


def _configuration(settings: Settings, environ: Mapping[str, str]) -> Config:
    trust = TrustStore(settings.paths.data_dir)
    config = configuration.load_config(settings.paths.config, Path.cwd(), environ, trust)
    for line in filter(None, (config.refused, *config.key_problems)):
        log.warning("%s", line)
    return config


def _skill_service(
    settings: Settings,
    config: Config,
    model: LazyModel,
    wiring: Wiring,
    environ: Mapping[str, str],
) -> SkillService:
    homes = [
        *(source.parent for source in config.sources),
        Path(environ.get("HOME") or Path.home()),
    ]
    folders = SkillFolders(AddedFolders.of(settings.paths.data_dir), homes)
    folders.configure(config.skills, config.skills_problem)
    curves = None if settings.paths.no_cache else settings.paths.data_dir / "cache" / "calibration"

    directory = settings.paths.data_dir / "cache" / "skills"

    def name() -> str:
        return f"skills-{_hash(folders.wanted())}.sqlite"

    def blobs() -> BlobStore | None:
        return None if settings.paths.no_cache else BlobStore(directory / name())

    def cache() -> SqliteVectorCache | None:
        return _vectors_in(settings, directory, name(), model)

    semantic = SemanticSignal(model, cache, curves, noun="passages")
    profile = skills_profile(
        settings.search.alpha, settings.search.limit, settings.search.threshold
    )
    with_vectors = wiring.skills != "list_only"
    engine = SearchEngine(profile, LexicalSignal(), semantic if with_vectors else None)
    return SkillService(engine, semantic, SkillFeed(folders, wiring.skills, blobs))


def _vector_pair(settings: Settings, model: LazyModel) -> VectorPair:
    try:
        sandbox = (settings.paths.sandbox or Path()).resolve()
    except OSError:  # the working directory was deleted
        sandbox = Path()
    name = f"vector-{_hash([sandbox])}.sqlite"
    directory = settings.paths.data_dir / "cache" / "vector"
    store = (
        None if settings.paths.no_cache else BlobStore(settings.paths.data_dir / "skills" / name)
    )
    return VectorPair(sandbox, model, store, lambda: _vectors_in(settings, directory, name, model))


def _hash(paths: Iterable[Path]) -> str:
    """16 hex digits that stand for some paths."""
    return hashlib.sha256("\0".join(map(str, paths)).encode(errors="replace")).hexdigest()[:16]


def _learning(settings: Settings, config: Config, shared: "Shared | None") -> Learning | None:
    if settings.search.no_learning:
        return None
    files = GraphStore(settings.paths.data_dir / "graph", config.key)
    return Learning(shared.graph if shared else files)


def _follower(settings: Settings, config: Config, environ: Mapping[str, str]) -> Follower:
    # A file that was named with its whole path needs no working directory.
    here = config.sources[0].parent if settings.paths.config else Path.cwd()
    where = config.sources[0] if settings.paths.config else None
    trust = TrustStore(settings.paths.data_dir)

    def watched() -> tuple[Path, ...]:
        return locations.watched(locations.locate(where, here, environ), trust.data_dir)

    return Follower(config, watched, lambda: configuration.load_config(where, here, environ, trust))


def _embeddings(
    settings: Settings, config: Config, model: LazyModel, shared: "Shared | None"
) -> VectorCache | None:
    if settings.paths.no_cache:
        return None
    if shared is not None:
        return shared.vectors
    directory = settings.paths.data_dir / "cache" / "embeddings"
    folder = directory / FALLBACK if _standing_in(model) else directory
    return JsonVectorCache(folder / f"embeddings-{config.servers_hash}.json")


def _vectors_in(
    settings: Settings, directory: Path, name: str, model: LazyModel
) -> SqliteVectorCache | None:
    """The cache of the model that answers; one that stands in for another has its own."""
    if settings.paths.no_cache:
        return None
    return SqliteVectorCache((directory / FALLBACK if _standing_in(model) else directory) / name)


def _standing_in(model: LazyModel) -> bool:
    """Whether the model that answers stands in for another."""
    identity = model.identify()
    return identity is not None and bool(identity.degraded)


def _connect(
    settings: Settings,
    config_key: str,
    pins: DefinitionPins,
    logins: Records | None,
    folder: str,
) -> Connect:
    with IMPORTING:
        from toolscript.gateway.upstream.connection import McpConnect  # noqa: PLC0415 - see Gateway.run

    return McpConnect(settings.gateway, settings.paths.data_dir, config_key, pins, logins, folder)
