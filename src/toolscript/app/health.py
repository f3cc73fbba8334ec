"""How an application is doing: whether it is ready, and what its search has done so far."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from toolscript.embedding.loader import LazyModel
from toolscript.errors import ModelError, TaskDiedError
from toolscript.gateway.base import DatabaseState
from toolscript.retrieval.live_index import LiveIndex
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal


@dataclass(frozen=True, slots=True)
class DownloadState:
    """How far the download of a model is; a total of 0 is not known yet."""

    model: str
    done_bytes: int
    total_bytes: int

    @classmethod
    def of(cls, model: LazyModel) -> "DownloadState | None":
        """Returns how far this model is; None if it is not being downloaded."""
        progress = model.progress
        what = progress.what
        return cls(what, progress.done_bytes, progress.total_bytes) if what else None


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the application answers, and from how much."""

    ready: bool
    """Every server has settled and every tool is fully indexed."""
    waiting_for: tuple[str, ...]
    """Servers that have neither become ready nor failed yet."""
    tools: int
    """How many tools can be found."""
    tools_waiting: int = 0
    """How many of them some signal does not cover yet."""
    passages_waiting: int = 0
    """How many passages of skills some signal does not cover yet."""
    configuration: str = ""
    """The `files.stamp` of the configuration that is served."""
    configuration_problem: str = ""
    """Why the files of the configuration as they are now are not served."""
    download: DownloadState | None = None
    """The model that is being downloaded."""
    folder: str = ""
    """Where servers start that are the user's own and name no folder; for the owner alone."""
    tasks: Mapping[str, str] = field(default_factory=dict[str, str])
    """Each background task's state by its name: see `TaskMonitor`."""
    database: DatabaseState | None = None
    """The database that several gateways share; None if there is none."""
    failure: TaskDiedError | None = None
    """The death of a background task, which ends the process."""

    @property
    def status(self) -> Literal["ready", "starting", "failed"]:
        """Whether it is ready, in one word."""
        alive = "ready" if self.ready else "starting"
        return "failed" if self.failure else alive


PUBLIC_STATS = ("model", "modelLoaded", "device", "signals", "degraded")
"""The statistics that say nothing about other callers' tools."""


def search_stats(index: LiveIndex[Any], semantic: SemanticSignal) -> dict[str, object]:
    """Returns what is indexed, by what, and how much of it was computed or remembered."""
    try:
        loaded, refused = semantic.model.loaded, ""
    except ModelError as error:
        loaded, refused = None, str(error)
    encoder = loaded.encoder if loaded else None
    identity = None if loaded else semantic.model.identify()
    counters = semantic.counters
    queries = counters.queries_embedded + counters.queries_remembered
    documents = counters.documents_embedded + counters.documents_from_cache
    return {
        "toolsIndexed": index.indexed,
        "toolsWaiting": index.waiting,
        "embeddingsCached": semantic.embedded,
        "model": encoder.name if encoder else identity.name if identity else None,
        "modelLoaded": encoder is not None,
        "device": encoder.device if encoder else None,
        "signals": ["semantic", "fuzzy"] if encoder or not (loaded or refused) else ["fuzzy"],
        "degraded": refused or (loaded.degraded if loaded else "") or None,
        "documentsEmbedded": counters.documents_embedded,
        "documentsFromCache": counters.documents_from_cache,
        "cacheHitRate": round(counters.documents_from_cache / documents, 4) if documents else None,
        "queryCacheHitRate": round(counters.queries_remembered / queries, 4) if queries else None,
    }
