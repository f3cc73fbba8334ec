"""Builds the application from the settings; the only module that names concrete classes.

Nothing is loaded or connected here, but for a database that several gateways share.
"""

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, cast

from toolscript.app.application import App
from toolscript.app.base import Stores
from toolscript.app.builtin_tools import vector_tools
from toolscript.app.result_store import ResultStore
from toolscript.app.stores import open_stores
from toolscript.app.tool_feed import ToolFeed
from toolscript.config import locations
from toolscript.config.follower import follow_files
from toolscript.config.secret_store import SecretStore
from toolscript.config.servers import Config, load_config
from toolscript.config.settings import PathSettings, Settings
from toolscript.config.trust import TrustStore
from toolscript.embedding.base import VectorCache
from toolscript.embedding.loader import Choice, LazyModel, lazy
from toolscript.gateway.base import IMPORTING, Connect, Replication
from toolscript.gateway.catalogue import Catalogue
from toolscript.gateway.definitions.comparison import ChangePolicy
from toolscript.gateway.definitions.pins import DefinitionPins
from toolscript.gateway.gateway import Gateway
from toolscript.gateway.run_policy import Intervals, RunPolicy
from toolscript.gateway.snapshot import SnapshotStore
from toolscript.graph.learning import Learning
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.lexical.bm25f import LexicalSignal
from toolscript.retrieval.live_index import LiveIndex
from toolscript.retrieval.profiles import search_profile, skills_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.skills.assembly import skill_service, vector_pair
from toolscript.skills.scanner import SkillMode
from toolscript.storage.atomic_files import check_owner

log = logging.getLogger(__name__)


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
    intervals: Intervals = field(default_factory=Intervals)
    """How often connected servers are asked for something."""
    model: LazyModel | None = None
    """The settings' model, if something has begun to load it; None makes it."""


def application(
    settings: Settings,
    config: Config | None = None,
    wiring: Wiring | None = None,
    environ: Mapping[str, str] = os.environ,
    stores: Stores | None = None,
) -> App:
    """Returns an application for these settings; connects to no server before it runs.

    Args:
        settings: The values of all options.
        config: The configuration; None finds it as the settings and the environment say.
        wiring: Says which parts of the application are used; None uses all.
        environ: The environment's variables.
        stores: The stores of the configuration; None opens them.

    Raises:
        ConfigError: The configuration, the data directory or the database cannot be used.
        DatabaseUnavailableError: The database does not answer.
    """
    paths, wiring = settings.paths, wiring or Wiring()
    check_owner(paths.data_dir)
    config = config or _load_config(paths, environ)
    stores = stores or open_stores(settings, config.key)
    choice = Choice(directory=paths.data_dir / "models", **asdict(settings.embedding))
    model = wiring.model or lazy(choice)
    snapshots = SnapshotStore(paths.data_dir / "cache" / "catalogue", config.key)
    policy = cast("ChangePolicy", settings.calls.changed_tools)
    known = snapshots.load(config.servers).under(policy) if wiring.use_snapshot else Catalogue({})
    pins = DefinitionPins(paths.data_dir, config.key, policy, records=stores.records("pins"))
    secrets = SecretStore(paths.data_dir)
    logins, folder = stores.records("logins"), locations.home(environ) if wiring.at_home else ""
    limits = settings.gateway

    def connect() -> Connect:
        with IMPORTING:
            from toolscript.gateway.upstream.connection import McpConnect  # noqa: PLC0415 - see Gateway.run

        return McpConnect(
            limits,
            wiring.intervals,
            paths.data_dir,
            config.key,
            pins,
            secrets,
            known,
            logins,
            folder,
            settings.server.client_document,
        )

    gateway = _gateway_class(stores.replication)(
        config,
        known,
        connect,
        pins,
        policy=RunPolicy(
            wiring.start,
            limits.idle_timeout_s,
            limits.max_processes,
            wiring.only,
        ),
        project=folder or locations.here(),
        logs=paths.data_dir / "logs" / "servers" / config.key,
        secrets=secrets,
    )
    learning = None if settings.search.no_learning else Learning(stores.graph)
    curves = None if paths.no_cache else paths.data_dir / "cache" / "calibration"

    def vectors() -> VectorCache | None:
        if paths.no_cache:
            return None
        return stores.vectors(gateway.config.servers_hash, is_fallback=model.is_fallback)

    semantic = SemanticSignal(model, vectors, curves, usage=learning and learning.usage)
    if learning is not None:
        learning.embed = semantic.embed_query
    search, embedder = settings.search, semantic if wiring.embed else None
    engine = SearchEngine(
        search_profile(search.alpha, search.limit, search.threshold, search.steps),
        LexicalSignal(),
        embedder,
        learning,
        accepted_at=lambda tool: gateway.catalogue.accepted_at(tool),  # noqa: PLW0108 - the latest catalogue's
    )
    skills = skills_profile(search.alpha, search.limit, search.threshold, search.steps)
    return App(
        gateway,
        LiveIndex(engine, ToolFeed(gateway, snapshots)),
        semantic,
        skill_service(paths, skills, config, wiring.skills, model, environ),
        stores,
        calls=settings.calls,
        builtin_tools=vector_tools(vector_pair(paths, model)),
        follower=follow_files(paths, config, environ) if wiring.follow else None,
        results=ResultStore(paths.data_dir / "results"),
    )


def _gateway_class(replication: Replication | None) -> Callable[..., Gateway]:
    if replication is None:
        return Gateway
    from toolscript.gateway.replication import ReplicatedGateway  # noqa: PLC0415 - most are alone

    return partial(ReplicatedGateway, replication)


def _load_config(paths: PathSettings, environ: Mapping[str, str]) -> Config:
    config = load_config(paths.config, Path.cwd(), environ, TrustStore(paths.data_dir))
    for line in filter(None, (config.refused, *config.key_problems)):
        log.warning("%s", line)
    return config
