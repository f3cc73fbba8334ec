"""The application: what can be asked of toolscript, whichever door the question comes through.

Knows no wire and no file format. Searching is synchronous inside; `App` is the
one place where its work leaves the event loop.
"""

import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import anyio
import anyio.to_thread
from msgspec.structs import replace

from toolscript.app.argument_checks import check_foreign_arguments
from toolscript.app.builtin_tools import BuiltinTool, vector_tools
from toolscript.app.scoped_catalogue import ScopedCatalogue
from toolscript.app.task_monitor import TaskMonitor
from toolscript.codegen.typed_clients import Clients, Language, Module, ModuleRequest
from toolscript.config.follower import Follower
from toolscript.config.servers import Config
from toolscript.embedding.loader import Loaded
from toolscript.errors import (
    ModelError,
    NotConnectedError,
    NotReadyError,
    SearchTimeoutError,
    TaskDiedError,
    UnknownNameError,
    UpstreamError,
)
from toolscript.gateway.base import SILENT_CALLER, Caller, without_last_words
from toolscript.gateway.catalogue import Catalogue
from toolscript.gateway.gateway import Gateway
from toolscript.gateway.snapshot import SnapshotStore
from toolscript.graph.inference import Inference
from toolscript.graph.learning import Learning
from toolscript.graph.session_history import SessionHistory
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.skills.scanner import SkillCatalogue
from toolscript.skills.service import SkillPage, SkillService, indexed, merged
from toolscript.types import (
    EVERYTHING,
    SEPARATOR,
    Document,
    Grant,
    SearchRequest,
    SearchResult,
    ServerStatus,
    ToolSpec,
)

log = logging.getLogger(__name__)
CatalogueState: TypeAlias = tuple[Catalogue, SkillCatalogue]
"""The tools and the skills at one moment."""
SEARCH_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the application answers, and from how much."""

    ready: bool
    """Every server has settled and every tool is fully indexed."""
    waiting_for: tuple[str, ...]
    """Servers that have neither become ready nor failed yet."""
    tools: int
    waiting: int
    """Tools that can be found, but not by every signal yet."""
    passages_waiting: int = 0
    """The same of skills' passages."""
    config: str = ""
    """The `files.stamp` of the configuration that is served."""
    config_problem: str = ""
    """Why the files as they are now are not."""
    download: "DownloadState | None" = None
    """The model that is being downloaded."""
    tasks: Mapping[str, str] = field(default_factory=dict[str, str])
    """Each background task's state by its name: see `TaskMonitor`."""
    failure: TaskDiedError | None = None
    """One of them has died, and the process ends."""


@dataclass(frozen=True, slots=True)
class DownloadState:
    """How far a download is; a total of 0 is not known yet."""

    model: str
    done_bytes: int
    total_bytes: int


class App:
    """Gateway, index and engine, wired. Use it inside ``async with app.running()``."""

    def __init__(  # noqa: PLR0913 - the parts that bootstrap wires
        self,
        gateway: Gateway,
        engine: SearchEngine,
        semantic: SemanticSignal,
        snapshots: SnapshotStore,
        *,
        search_timeout_s: float = SEARCH_TIMEOUT_S,
        follower: Follower | None = None,
        skill_service: SkillService,
        learning: Learning | None = None,
    ) -> None:
        self.skill_service = skill_service
        self.task_monitor = TaskMonitor()
        self._own_tools = vector_tools(skill_service.vector)
        self._gateway = gateway
        self._engine = engine
        self._semantic = semantic
        self._snapshots = snapshots
        self._search_timeout_s = search_timeout_s
        self._follower = follower
        self.learning = learning
        self._inference = Inference()
        self._indexed: Catalogue | None = None
        self._kept: Catalogue | None = None
        self._fault = ""
        self._step = anyio.Event()
        self._clients: tuple[Catalogue, Clients] | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["App"]:
        """Connect and index for as long as the block lasts; then close every connection.

        The block is cancelled once a background task has died, and `TaskDiedError` raised.
        """
        failure: Exception | None = None
        if self.learning is not None:
            await anyio.to_thread.run_sync(self.learning.open)
        try:
            async with anyio.create_task_group() as tasks:
                for name, work in self._background().items():
                    tasks.start_soon(self.task_monitor.run, name, work, name=name)
                try:
                    yield self
                except Exception as error:  # noqa: BLE001 - raised again, without the task group's wrapping
                    failure = error
                finally:
                    tasks.cancel_scope.cancel()
        except BaseExceptionGroup:  # of task groups; what died is in the log
            self.task_monitor.check()
            raise
        finally:
            self._keep(self._gateway.catalogue)
            if self.learning is not None:
                self.learning.close()
        self.task_monitor.check()
        if failure is not None:
            raise failure

    def _background(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """The tasks, by the names that ``/health`` has for them."""
        tasks: dict[str, Callable[[], Awaitable[None]]]
        tasks = {
            "index": self._index,
            "servers": self._gateway.run,
            "skills": self.skill_service.run,
        }
        if self._follower:
            tasks["configuration"] = partial(self._follower.run, self._configure)
        return tasks

    async def search(
        self, request: SearchRequest, history: SessionHistory | None = None
    ) -> SearchResult:
        """The tools that answer; the search is noted on the session's trail.

        Raises `NotReadyError` while there is nothing to search, `SearchTimeoutError`
        after ``search_timeout_s`` seconds, `UnknownNameError` for a server that
        is not configured, and what `SearchEngine.search` raises.
        """
        self._view(request.grant).check(request.servers)
        if request.skills:
            return await self._search_both(request)
        if not self.searchable:
            raise NotReadyError(self._nothing(request.grant))
        found = await self._in_time(self._engine.search, request)
        if request.why and found.why is None:
            found = replace(found, why=self._view(request.grant).why_missing(request.why))
        if history is not None:
            history.record_search(request.text, [hit.document.id for hit in found.hits])
        return replace(found, degraded=(*found.degraded, self._fault)) if self._fault else found

    async def search_skills(self, request: SearchRequest) -> SearchResult:
        """The skills that answer, each with its best passage; none where there are no skills.

        Raises `SearchTimeoutError`, and what `SearchEngine.search` raises.
        """
        return await self._in_time(self.skill_service.search, request)

    async def _in_time(
        self, search: Callable[[SearchRequest], SearchResult], request: SearchRequest
    ) -> SearchResult:
        with anyio.move_on_after(self._search_timeout_s):
            return await anyio.to_thread.run_sync(search, request, abandon_on_cancel=True)
        raise SearchTimeoutError(
            f"the search took longer than {self._search_timeout_s:g} s; try a shorter query"
        )

    async def _search_both(self, request: SearchRequest) -> SearchResult:
        alone = replace(request, skills=False)
        skills = await self.search_skills(replace(alone, servers=(), why=""))
        has_tools = self.searchable or not skills.hits
        return merged(await self.search(alone) if has_tools else None, skills)

    async def read_skill(self, name: str, file: str = "", grant: Grant = EVERYTHING) -> SkillPage:
        """See `SkillService.read`; off the event loop."""
        return await anyio.to_thread.run_sync(self.skill_service.read, name, file, grant)

    @property
    def searchable(self) -> bool:
        """Whether anything is indexed, so that a search can answer."""
        return bool(self._engine.indexed)

    async def ready(self) -> None:
        """Return when every server has settled and every tool and skill is fully indexed."""
        await self._gateway.settle()
        while not self.health().ready:
            await self._step.wait()
            await self._gateway.settle()
        await self.skill_service.settled()

    def health(self, grant: Grant = EVERYTHING) -> Health:
        """See `Health`; of what is kept from the caller nothing is named or counted."""
        current = self._indexed is self._gateway.catalogue
        return Health(
            ready=not self.task_monitor.failure
            and self._gateway.settled
            and current
            and not self._engine.waiting
            and not self.skill_service.awaited,
            waiting_for=self._view(grant).unsettled(),
            tools=self._engine.indexed if grant.is_everything else len(self.tools(grant=grant)),
            waiting=self._engine.waiting if grant.is_everything else 0,
            passages_waiting=self.skill_service.waiting if grant.is_everything else 0,
            download=self._download(),
            config=self._gateway.config.stamp if grant.is_everything else "",
            config_problem=self._problem if grant.is_everything else "",
            tasks=self._tasks() if grant.is_everything else {},
            failure=self.task_monitor.failure,
        )

    def _tasks(self) -> dict[str, str]:
        learning = {"learning": self.learning.state} if self.learning is not None else {}
        return {**self.task_monitor.states, **learning}

    def _download(self) -> DownloadState | None:
        progress = self._semantic.model.progress
        what = progress.what
        return DownloadState(what, progress.done_bytes, progress.total_bytes) if what else None

    def servers(self, grant: Grant = EVERYTHING) -> list[ServerStatus]:
        """Every configured server that the caller may know, by name."""
        return self._view(grant).servers()

    def tools(self, server: str | None = None, grant: Grant = EVERYTHING) -> list[ToolSpec]:
        """Every tool that is the caller's, or one server's, by id."""
        return self._view(grant).tools(server)

    def pinned(self, grant: Grant = EVERYTHING) -> list[ToolSpec]:
        """Those of the caller's tools that models always see, by id."""
        return [tool for tool in self._gateway.pinned() if grant.allows(tool.id)]

    async def changed(self, seen: "CatalogueState | None") -> "CatalogueState":
        """Wait until there are other tools or skills than ``seen``, and return what there is."""
        if seen is not None:
            tools, skills = seen
            await first_of(
                partial(self._gateway.changed, tools), partial(self.skill_service.changed, skills)
            )
        return self._gateway.catalogue, self.skill_service.catalogue

    @property
    def exposed(self) -> Mapping[str, str]:
        """Every tool's name for models by its id."""
        return self._gateway.catalogue.exposed

    def tool(self, name: str, grant: Grant = EVERYTHING) -> ToolSpec:
        """The tool of this id or exposed name; `UnknownNameError` names the nearest instead."""
        return self._view(grant).tool(name)

    async def tool_when_ready(self, name: str, grant: Grant = EVERYTHING) -> ToolSpec:
        """The same, having waited for its server if that is still connecting."""
        if self._gateway.catalogue.find(name) is None:
            await self._gateway.settle(re.split(f"{SEPARATOR}|:", name, maxsplit=1)[0])
        return self.tool(name, grant)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        caller: Caller = SILENT_CALLER,
        grant: Grant = EVERYTHING,
        *,
        history: SessionHistory | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Call a tool. The result is its server's, as on the wire of MCP; ``isError`` included.

        ``more`` goes along beside name and arguments. That the tool was called,
        and whether it succeeded, is learned from: as a step of the session whose
        ``trail`` it is, or by itself. Raises what `tool`, `check_foreign_arguments` and
        `Upstream.request` raise.
        """
        own = self._own(name, grant)
        if own:
            return await anyio.to_thread.run_sync(own.call, arguments)
        tool = await self.tool_when_ready(name, grant)
        await check_foreign_arguments(tool.id, tool.input_schema, arguments)
        params = {"name": tool.name, "arguments": dict(arguments), **more}
        try:
            result = await self.request(tool.server, "tools/call", params, caller, grant)
        except UpstreamError:
            self._learn(history, tool.id, succeeded=False)
            raise
        if result.get("resultType") != "input_required":
            self._learn(history, tool.id, succeeded=not result.get("isError"))
        return result

    def _learn(self, history: SessionHistory | None, tool: str, *, succeeded: bool) -> None:
        if self.learning is not None:
            self.learning.record_call(history or SessionHistory(), tool, succeeded=succeeded)

    def own(self, grant: Grant = EVERYTHING) -> list[ToolSpec]:
        """The tools that are toolscript's own, where models are to be told of them."""
        offered = self._own_tools if self.skill_service.vector.offered else ()
        return [tool.spec for tool in offered if grant.allows(tool.spec.id)]

    def _own(self, name: str, grant: Grant) -> BuiltinTool | None:
        """One of these, unless a server of the configuration has taken its name."""
        found = next((tool for tool in self._own_tools if tool.answers_to(name)), None)
        taken = found and any(found.spec.server == s.name for s in self._gateway.config.servers)
        return found if found and not taken and grant.allows(found.spec.id) else None

    async def request(
        self,
        server: str,
        method: str,
        params: dict[str, Any],
        caller: Caller = SILENT_CALLER,
        grant: Grant = EVERYTHING,
    ) -> dict[str, Any]:
        """Pass a request on to a server; see `Upstream.request`."""
        try:
            return await self._gateway.request(server, method, params, caller)
        except NotConnectedError as error:
            if grant.is_owner:
                raise
            raise NotConnectedError(without_last_words(str(error))) from None

    async def module(
        self,
        language: Language,
        names: Sequence[str] = (),
        *,
        compact: bool = False,
        grant: Grant = EVERYTHING,
    ) -> Module:
        """A typed client of the caller's tools, or of those that servers' names and ids choose.

        Servers that are still connecting are waited for where they are named.
        Raises `UnknownNameError` with every name that chooses nothing, and
        `NotReadyError` where there is no tool at all.
        """
        view = self._view(grant)
        for name in names:
            if not view.chosen(name):
                await self._gateway.settle(name.partition(SEPARATOR)[0])
        chosen = [view.chosen(name) for name in names] or [view.tools()]
        unknown = [name for name, tools in zip(names, chosen, strict=False) if not tools]
        if unknown:
            raise UnknownNameError("; ".join(map(view.unchosen, unknown)))
        ids = tuple(dict.fromkeys(tool.id for tools in chosen for tool in tools))
        if not ids:
            raise NotReadyError(self._nothing(grant))
        request, clients = ModuleRequest(language, ids, compact), self._clients_now()
        return clients.cached(request) or await anyio.to_thread.run_sync(clients.module, request)

    def stats(self, grant: Grant = EVERYTHING) -> dict[str, object]:
        """What is indexed, by what, and how much of it was computed or remembered.

        Who is not granted everything is told of their own tools, and by what.
        """
        told = self._stats()
        if grant.is_everything:
            return told
        kept = ("model", "modelLoaded", "device", "signals", "degraded")
        return {"toolsIndexed": len(self.tools(grant=grant)), **{key: told[key] for key in kept}}

    def _stats(self) -> dict[str, object]:
        loaded, refused = self._loaded()
        encoder = loaded.encoder if loaded else None
        identity = None if loaded else self._semantic.model.identify()
        counters = self._semantic.counters
        asked = counters.queries_embedded + counters.queries_remembered
        learned = counters.documents_embedded + counters.documents_from_cache
        return {
            "toolsIndexed": self._engine.indexed,
            "toolsWaiting": self._engine.waiting,
            "embeddingsCached": self._semantic.embedded,
            "model": encoder.name if encoder else identity.name if identity else None,
            "modelLoaded": encoder is not None,
            "device": encoder.device if encoder else None,
            "signals": ["semantic", "fuzzy"] if encoder or not (loaded or refused) else ["fuzzy"],
            "degraded": refused or (loaded.degraded if loaded else "") or None,
            "documentsEmbedded": counters.documents_embedded,
            "documentsFromCache": counters.documents_from_cache,
            "cacheHitRate": round(counters.documents_from_cache / learned, 4) if learned else None,
            "queryCacheHitRate": round(counters.queries_remembered / asked, 4) if asked else None,
        }

    def _loaded(self) -> tuple[Loaded | None, str]:
        """The model as far as it is loaded, and why it was refused."""
        try:
            return self._semantic.model.loaded, ""
        except ModelError as error:
            return None, str(error)

    async def _index(self) -> None:
        """The single writer: index each catalogue as it comes, then keep it on disk."""
        indexed = Catalogue({})
        seen: Catalogue | None = None
        while True:
            catalogue = seen = await self._gateway.changed(seen)
            if indexed.tools != catalogue.tools:
                await anyio.to_thread.run_sync(self._update, catalogue)
                indexed = catalogue
            self._indexed = catalogue
            self._step.set()
            self._step = anyio.Event()
            await anyio.to_thread.run_sync(self._keep, catalogue)

    def _keep(self, catalogue: Catalogue) -> None:
        """Have the catalogue on disk, for the next start."""
        if self._kept is not catalogue:
            self._kept = catalogue
            try:
                self._snapshots.save(catalogue)
            except Exception:
                # A boundary: whatever a server lists, the gateway goes on without a snapshot.
                log.exception("the catalogue could not be kept")

    def _update(self, catalogue: Catalogue) -> None:
        documents = partial(self._documents, catalogue)
        superseded = partial(self._is_past, catalogue)
        self._fault = indexed(self._engine, documents, superseded, "tools")

    def _documents(self, catalogue: Catalogue) -> list[Document]:
        if self.learning is not None:
            servers = {name: entry.tools for name, entry in catalogue.servers.items()}
            self.learning.graph.set_inferred(self._inference.of(servers))
        return [Document.of(tool) for tool in catalogue.tools.values()]

    def _is_past(self, catalogue: Catalogue) -> bool:
        return self._gateway.catalogue is not catalogue

    def _configure(self, config: Config) -> None:
        self._gateway.configure(config)
        self.skill_service.folders.configure(config.skills, config.skills_problem)

    @property
    def _problem(self) -> str:
        return self._follower.problem if self._follower else ""

    def _clients_now(self) -> Clients:
        """The clients of the catalogue as it is now."""
        catalogue = self._gateway.catalogue
        if self._clients is None or self._clients[0] is not catalogue:
            self._clients = (catalogue, Clients(catalogue.tools))
        return self._clients[1]

    def _view(self, grant: Grant) -> ScopedCatalogue:
        return ScopedCatalogue(self._gateway, grant)

    def _nothing(self, grant: Grant) -> str:
        if self._fault:
            return f"no tools can be searched; {self._fault}"
        return self._view(grant).nothing()


async def first_of(*waits: Callable[[], Awaitable[object]]) -> None:
    """Return when one of these has come; the others are cancelled."""

    async def wait_for(wait: Callable[[], Awaitable[object]]) -> None:
        await wait()
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for wait in waits:
            tasks.start_soon(wait_for, wait)
