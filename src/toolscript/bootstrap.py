"""Settings to a wired application: the only module that names concrete classes.

Nothing is loaded or connected here; what is expensive is imported where it is
first needed.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from toolscript import config as configuration
from toolscript.app import App
from toolscript.config import Config
from toolscript.embedding import loader
from toolscript.embedding.cache import EmbeddingCache
from toolscript.embedding.loader import LazyModel
from toolscript.gateway.base import IMPORTING, Connect
from toolscript.gateway.catalogue import Catalogue
from toolscript.gateway.follower import Follower
from toolscript.gateway.gateway import Gateway
from toolscript.gateway.snapshot import SnapshotStore
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.fuzzy import FuzzySignal
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic import SemanticSignal
from toolscript.settings import Settings


@dataclass(frozen=True, slots=True)
class Wiring:
    """How much of the outside world the application may use."""

    reconnect: bool = True
    """Connect to servers that the snapshot knows already."""
    only: str | None = None
    """Connect to no other server than this."""
    use_snapshot: bool = True
    """Answer from the snapshot until the servers say otherwise."""
    embed: bool = True
    """Embed the tools; without, they are searched by words, or only listed."""
    follow: bool = False
    """Take over the configuration whenever its files change."""


def application(
    settings: Settings,
    config: Config | None = None,
    wiring: Wiring | None = None,
    environ: Mapping[str, str] = os.environ,
) -> App:
    """An application for these settings.

    Raises `ConfigError` when the configuration as a whole is unusable.
    """
    wiring = wiring or Wiring()
    config = config or configuration.load(settings.config, Path.cwd(), environ)
    snapshots = SnapshotStore(settings.data_dir / "cache" / "catalogue", config.key)
    known = snapshots.load(config.servers) if wiring.use_snapshot else Catalogue({})
    gateway = Gateway(
        config,
        known,
        lambda: _connect(settings, config.key),
        reconnect=wiring.reconnect,
        only=wiring.only,
    )
    model = _model(settings)
    curves = None if settings.no_cache else settings.data_dir / "cache" / "calibration"
    semantic = SemanticSignal(model, lambda: _cache(settings, gateway.config, model), curves)
    profile = search_profile(settings.alpha, settings.limit, settings.threshold)
    signals = [semantic, FuzzySignal()] if wiring.embed else [FuzzySignal()]
    engine = SearchEngine(signals, profile)
    follower = _follower(settings, config, environ) if wiring.follow else None
    return App(gateway, engine, semantic, snapshots, follower=follower)


def _follower(settings: Settings, config: Config, environ: Mapping[str, str]) -> Follower:
    # A file that was named with its whole path needs no working directory.
    here = config.sources[0].parent if settings.config else Path.cwd()
    where = config.sources[0] if settings.config else None
    return Follower(
        config,
        lambda: configuration.locate(where, here, environ),
        lambda: configuration.load(where, here, environ),
    )


def _model(settings: Settings) -> LazyModel:
    return loader.lazy(
        loader.Choice(
            model=settings.model,
            fallback=settings.fallback,
            threads=settings.threads,
            device=settings.device,
            directory=settings.data_dir / "models",
            key=settings.embeddings_key or "",
        )
    )


def _cache(settings: Settings, config: Config, model: LazyModel) -> EmbeddingCache | None:
    """The cache of what answers: a model that stands in for another leaves that one's alone."""
    if settings.no_cache:
        return None
    directory = settings.data_dir / "cache" / "embeddings"
    foreseen = model.foresee()
    standing_in = foreseen is not None and bool(foreseen.degraded)
    return EmbeddingCache(directory / "fallback" if standing_in else directory, config.servers_hash)


def _connect(settings: Settings, config_key: str) -> Connect:
    with IMPORTING:
        from toolscript.gateway.upstream import Limits, McpConnect  # noqa: PLC0415 - see Gateway.run

    limits = Limits(
        settings.connect_timeout_s,
        settings.ping_interval_s,
        settings.call_timeout_s,
        settings.poll_interval_s,
    )
    logs = settings.data_dir / "logs" / "servers" / config_key
    return McpConnect(limits, logs, settings.data_dir / "auth")
