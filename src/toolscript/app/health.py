"""How an application is doing: whether it is ready, and the figures of its searches so far."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

from toolscript.app.activity_recorder import ActivityRecorder
from toolscript.app.base import Stores
from toolscript.app.scoped_catalogue import ScopedCatalogue
from toolscript.app.task_monitor import RUNNING, TaskMonitor
from toolscript.config.follower import Follower
from toolscript.embedding.loader import LazyModel
from toolscript.errors import ModelError, TaskDiedError
from toolscript.gateway.base import DatabaseState
from toolscript.gateway.catalogue import Catalogue
from toolscript.gateway.gateway import Gateway
from toolscript.retrieval.live_index import LiveIndex
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.skills.service import SkillService
from toolscript.types import EVERYTHING, Grant


class DownloadState(msgspec.Struct, frozen=True, rename="camel"):
    """How far the download of a model is; a total of 0 is not known yet."""

    model: str
    done_bytes: int
    total_bytes: int

    @classmethod
    def of(cls, model: LazyModel) -> "DownloadState | None":
        """Returns how far this model is; None if it is not being downloaded."""
        now = model.progress
        return cls(now.what, now.done_bytes, now.total_bytes) if now.what else None


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
    """Returns how much is indexed, by which model, and how much was computed or remembered."""
    counters = semantic.counters
    queries = counters.queries_embedded + counters.queries_remembered
    documents = counters.documents_embedded + counters.documents_from_cache
    return {
        "toolsIndexed": index.indexed,
        "toolsWaiting": index.waiting,
        "embeddingsCached": semantic.embedded,
        **_model_stats(semantic.model),
        "documentsEmbedded": counters.documents_embedded,
        "documentsFromCache": counters.documents_from_cache,
        "cacheHitRate": round(counters.documents_from_cache / documents, 4) if documents else None,
        "queryCacheHitRate": round(counters.queries_remembered / queries, 4) if queries else None,
    }


def _model_stats(model: LazyModel) -> dict[str, object]:
    try:
        loaded, refused = model.loaded, ""
    except ModelError as error:
        loaded, refused = None, str(error)
    encoder = loaded.encoder if loaded else None
    identity = None if loaded else model.identify()
    return {
        "model": encoder.name if encoder else identity.name if identity else None,
        "modelLoaded": encoder is not None,
        "device": encoder.device if encoder else None,
        "signals": ["semantic", "fuzzy"] if encoder or not (loaded or refused) else ["fuzzy"],
        "degraded": refused or (loaded.degraded if loaded else "") or None,
    }


def count_indexed(index: LiveIndex[Catalogue], gateway: Gateway) -> int:
    """Returns how many tools can be found: not the held ones, which are indexed as well."""
    held = len(gateway.catalogue.held)
    return max(0, index.indexed - held)


@dataclass(eq=False)
class HealthMonitor:
    """Answers how an application is doing, each time from the present state of its parts."""

    gateway: Gateway
    """Connects to the servers."""
    index: LiveIndex[Catalogue]
    """Searches the tools."""
    semantic: SemanticSignal
    """The semantic signal of the index, for the statistics."""
    skills: SkillService
    """Follows the skills."""
    stores: Stores
    """May be shared with other gateways, over a database."""
    tasks: TaskMonitor
    """The background tasks."""
    activity: ActivityRecorder
    """Records calls, or fails to."""
    follower: Follower | None
    """Takes over changes of the configuration; None if none does."""
    catalogue: Callable[[Grant], ScopedCatalogue]
    """Returns the tools that a grant allows."""
    _was_complete: bool = False
    """Whether all tools were indexed once: from then on a change costs only the new ones."""

    @property
    def database(self) -> DatabaseState | None:
        """The state of the database that several gateways share; None without one."""
        replication = self.stores.replication
        return replication.state() if replication else None

    async def ready(self) -> None:
        """Returns when every server has settled and every tool and skill is fully indexed."""
        while not (self.gateway.settled and self.index.ready):
            await self.gateway.settle()
            await self.index.settled()
        await self.skills.settled()

    def search_obstacle(self) -> str:
        """Returns why no search can be answered, without a server's name; empty if one can be.

        After the start none can until every server has settled and every tool is indexed.
        """
        if self.tasks.failure:
            return "a background task has failed; the gateway ends"
        database = self.database
        if database is not None and not database.fits:
            return database.problem
        self._was_complete |= self.gateway.settled and self.index.ready
        if not self._was_complete:
            return "the tools are being listed and indexed; try again"
        if count_indexed(self.index, self.gateway) or self.skills.index.indexed:
            return ""
        return "there is nothing to search; see: toolscript gateway status"

    def health(self, grant: Grant = EVERYTHING) -> Health:
        """Returns how the application is doing, as far as ``grant`` lets the caller know."""
        catalogue, indexed = self.catalogue(grant), count_indexed(self.index, self.gateway)
        is_ready = self.gateway.settled and self.index.ready and not self.skills.awaited
        denied = len(catalogue.permissions.denied(catalogue.grant))  # which are indexed, too
        health = Health(
            ready=is_ready and not self.tasks.failure,
            waiting_for=catalogue.unsettled(),
            tools=max(indexed - denied, 0) if catalogue.grant.is_whole else len(catalogue.tools()),
            download=DownloadState.of(self.semantic.model),
            failure=self.tasks.failure,
        )
        if not grant.is_whole:
            return health
        learning = self.index.engine.learning
        states = dict(self.tasks.states)
        if states.get("activity") == RUNNING:
            states["activity"] = self.activity.state
        if learning is not None:
            states["learning"] = learning.state
        return replace(
            health,
            tools_waiting=self.index.waiting,
            passages_waiting=self.skills.index.waiting,
            configuration=self.gateway.config.stamp,
            configuration_problem=self.follower.problem if self.follower else "",
            folder=self.gateway.project if grant.is_owner else "",
            tasks=states,
            database=self.database,
        )

    def stats(self, grant: Grant = EVERYTHING) -> dict[str, object]:
        """Returns how many tools are indexed by which model, and how many vectors were computed.

        ``grant`` limits the figures to those that the caller may know.
        """
        catalogue, indexed = self.catalogue(grant), count_indexed(self.index, self.gateway)
        indexed = indexed if catalogue.grant.is_whole else len(catalogue.tools())
        stats = search_stats(self.index, self.semantic) | {"toolsIndexed": indexed}
        return stats if grant.is_whole else {n: stats[n] for n in ("toolsIndexed", *PUBLIC_STATS)}
