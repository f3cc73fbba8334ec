"""The application: everything that surfaces ask of toolscript, whatever protocol they speak.

Knows no wire and no file format. Searching is synchronous inside; `App` is the
one place where its work leaves the event loop.
"""

import dataclasses
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeAlias

import anyio
import anyio.to_thread
from msgspec.structs import replace

from toolscript.app.argument_checks import check_foreign_arguments
from toolscript.app.builtin_tools import BuiltinTool
from toolscript.app.health import PUBLIC_STATS, DownloadState, Health, search_stats
from toolscript.app.scoped_catalogue import ScopedCatalogue
from toolscript.app.task_monitor import TaskMonitor
from toolscript.app.tool_feed import ToolFeed
from toolscript.codegen.typed_clients import Clients, Language, Module, ModuleRequest
from toolscript.config.follower import Follower
from toolscript.config.servers import Config
from toolscript.errors import (
    AccessError,
    InputError,
    NotConnectedError,
    NotReadyError,
    SearchTimeoutError,
    UpstreamError,
)
from toolscript.gateway.base import SILENT_CALLER, Caller, without_last_words
from toolscript.gateway.catalogue import Catalogue
from toolscript.gateway.gateway import Gateway
from toolscript.gateway.snapshot import SnapshotStore
from toolscript.graph.learning import Learning
from toolscript.graph.session_history import SessionHistory
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.live_index import LiveIndex
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.skills.scanner import Skill, SkillCatalogue
from toolscript.skills.service import SkillPage, SkillReport, SkillService
from toolscript.types import (
    EVERYTHING,
    SEPARATOR,
    Grant,
    SearchRequest,
    SearchResult,
    ServerStatus,
    ToolSpec,
)

CatalogueState: TypeAlias = tuple[Catalogue, SkillCatalogue]
"""The tools and the skills at one moment."""
SEARCH_TIMEOUT_S = 10.0


class App:
    """Gateway, index and engine, wired. Use it inside ``async with app.running()``.

    A ``grant`` says what the caller may see: what else there is, is neither named nor counted.
    """

    def __init__(  # noqa: PLR0913 - the parts that bootstrap wires
        self,
        gateway: Gateway,
        engine: SearchEngine,
        semantic: SemanticSignal,
        snapshots: SnapshotStore,
        skill_service: SkillService,
        *,
        builtin_tools: Sequence[BuiltinTool] = (),
        search_timeout_s: float = SEARCH_TIMEOUT_S,
        follower: Follower | None = None,
        learning: Learning | None = None,
    ) -> None:
        self.tasks = TaskMonitor()
        """The background tasks; a surface runs its own among them."""
        self._gateway = gateway
        self._engine = engine
        self._semantic = semantic
        self._feed = ToolFeed(gateway, snapshots, learning)
        self._index = LiveIndex(engine, self._feed)
        self._skills = skill_service
        self._builtin_tools = builtin_tools
        self._search_timeout_s = search_timeout_s
        self._follower = follower
        self._learning = learning
        self._clients: tuple[Catalogue, Clients] | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["App"]:
        """Connect and index for as long as the block lasts; then close every connection.

        The block is cancelled once a background task has died, and `TaskDiedError` raised.
        """
        failure: Exception | None = None
        if self._learning is not None:
            await anyio.to_thread.run_sync(self._learning.open)
        try:
            async with anyio.create_task_group() as tasks:
                for name, work in self._background().items():
                    tasks.start_soon(self.tasks.run, name, work, name=name)
                try:
                    yield self
                except Exception as error:  # noqa: BLE001 - raised again, without the task group's wrapping
                    failure = error
                finally:
                    tasks.cancel_scope.cancel()
        except BaseExceptionGroup:  # of task groups; what died is in the log
            self.tasks.check()
            raise
        finally:
            self._feed.save(self._gateway.catalogue)
            if self._learning is not None:
                self._learning.close()
        self.tasks.check()
        if failure is not None:
            raise failure

    def _background(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """The tasks, by the names that ``/health`` has for them."""
        tasks: dict[str, Callable[[], Awaitable[None]]] = {
            "index": self._index.run,
            "servers": self._gateway.run,
            "skills": self._skills.run,
        }
        if self._follower:
            tasks["configuration"] = partial(self._follower.run, self._configure)
        return tasks

    def _configure(self, config: Config) -> None:
        self._gateway.configure(config)
        self._skills.feed.folders.configure(config.skills, config.skills_problem)

    # How it is doing

    @property
    def searchable(self) -> bool:
        """Whether any tool is indexed, so that a search can answer."""
        return bool(self._engine.indexed)

    async def ready(self) -> None:
        """Return when every server has settled and every tool and skill is fully indexed."""
        while not (self._gateway.settled and self._index.ready):
            await self._gateway.settle()
            await self._index.settled()
        await self._skills.settled()

    def health(self, grant: Grant = EVERYTHING) -> Health:
        """Returns how the application is doing, as far as the caller may know."""
        health = Health(
            ready=not self.tasks.failure
            and self._gateway.settled
            and self._index.ready
            and not self._skills.awaited,
            waiting_for=self._view(grant).unsettled(),
            tools=self._engine.indexed if grant.is_everything else len(self.tools(grant=grant)),
            download=DownloadState.of(self._semantic.model),
            failure=self.tasks.failure,
        )
        if not grant.is_everything:
            return health
        learning = {"learning": self._learning.state} if self._learning is not None else {}
        return dataclasses.replace(
            health,
            waiting=self._index.waiting,
            passages_waiting=self._skills.waiting,
            config=self._gateway.config.stamp,
            config_problem=self._follower.problem if self._follower else "",
            tasks={**self.tasks.states, **learning},
        )

    def stats(self, grant: Grant = EVERYTHING) -> dict[str, object]:
        """Returns what is indexed, by what, and how much of it was computed or remembered."""
        stats = search_stats(self._engine, self._semantic)
        if grant.is_everything:
            return stats
        public = {name: stats[name] for name in PUBLIC_STATS}
        return {"toolsIndexed": len(self.tools(grant=grant)), **public}

    def learned(self, changed_by: Grant = EVERYTHING) -> Learning:
        """Returns what was learned from use, to look at or for a caller to change.

        Raises `InputError` where nothing is learned, `AccessError` where the caller may not
        change it.
        """
        if self._learning is None:
            advice = "TOOLSCRIPT_NO_LEARNING is set; unset it and restart"
            raise InputError(f"nothing is learned: {advice}")
        if not changed_by.is_everything:
            advice = "a token for all servers may change it"
            raise AccessError(f"what was learned is everybody's; {advice}")
        return self._learning

    # Searching

    async def search(
        self, request: SearchRequest, history: SessionHistory | None = None
    ) -> SearchResult:
        """Returns the tools that answer, and notes the search in the session's ``history``.

        Raises `NotReadyError` while there is nothing to search, `SearchTimeoutError`
        after ``search_timeout_s`` seconds, `UnknownNameError` for a server that
        is not configured, and what `SearchEngine.search` raises.
        """
        view = self._view(request.grant)
        view.check(request.servers)
        if request.skills:
            return await self._search_both(request)
        fault = self._index.fault
        if not self.searchable:
            raise NotReadyError(f"no tools can be searched; {fault}" if fault else view.nothing())
        result = await self._in_time(self._engine.search, request)
        if request.why and result.why is None:
            result = replace(result, why=view.why_missing(request.why))
        if history is not None:
            history.record_search(request.text, [hit.document.id for hit in result.hits])
        return replace(result, degraded=(*result.degraded, fault)) if fault else result

    async def search_skills(self, request: SearchRequest) -> SearchResult:
        """Returns the skills that answer, each with its best passage.

        Raises `SearchTimeoutError`, and what `SearchEngine.search` raises.
        """
        return await self._in_time(self._skills.search, request)

    async def _search_both(self, request: SearchRequest) -> SearchResult:
        tools_only = replace(request, skills=False)
        skills = await self.search_skills(replace(tools_only, servers=(), why=""))
        if not self.searchable and skills.hits:
            return skills
        return _merged(await self.search(tools_only), skills)

    async def _in_time(
        self, search: Callable[[SearchRequest], SearchResult], request: SearchRequest
    ) -> SearchResult:
        with anyio.move_on_after(self._search_timeout_s):
            return await anyio.to_thread.run_sync(search, request, abandon_on_cancel=True)
        raise SearchTimeoutError(
            f"the search took longer than {self._search_timeout_s:g} s; try a shorter query"
        )

    # Skills

    def skills(self, grant: Grant = EVERYTHING) -> list[Skill]:
        """Returns every skill that is the caller's, by name."""
        return self._skills.skills(grant)

    def skill_report(self, grant: Grant = EVERYTHING) -> SkillReport:
        """Returns the caller's skills, and where they come from if the caller may know that."""
        return self._skills.report(grant)

    async def read_skill(self, name: str, file: str = "", grant: Grant = EVERYTHING) -> SkillPage:
        """See `SkillService.read`; off the event loop."""
        return await anyio.to_thread.run_sync(self._skills.read, name, file, grant)

    async def update_skills(self) -> None:
        """Scan the folders of skills, and return when what they hold is indexed."""
        await self._skills.refresh()

    async def skills_settled(self) -> None:
        """Return when every skill is fully indexed."""
        await self._skills.settled()

    # The catalogue

    def servers(self, grant: Grant = EVERYTHING) -> list[ServerStatus]:
        """Returns every configured server that the caller may know, by name."""
        return self._view(grant).servers()

    def tools(self, server: str | None = None, grant: Grant = EVERYTHING) -> list[ToolSpec]:
        """Returns every tool that is the caller's, or one server's, by id."""
        return self._view(grant).tools(server)

    def pinned(self, grant: Grant = EVERYTHING) -> list[ToolSpec]:
        """Returns those of the caller's tools that models always see, by id."""
        return [tool for tool in self._gateway.pinned() if grant.allows(tool.id)]

    def builtin_tools(self, grant: Grant = EVERYTHING) -> list[ToolSpec]:
        """Returns the built-in tools that are listed for models."""
        specs = [tool.spec for tool in self._builtin_tools if tool.listed]
        return [spec for spec in specs if grant.allows(spec.id)]

    @property
    def exposed(self) -> Mapping[str, str]:
        """Every tool's name for models by its id."""
        return self._gateway.catalogue.exposed

    def tool(self, name: str, grant: Grant = EVERYTHING) -> ToolSpec:
        """Returns the tool of an id or exposed name; `UnknownNameError` names the nearest."""
        return self._view(grant).tool(name)

    async def tool_when_ready(self, name: str, grant: Grant = EVERYTHING) -> ToolSpec:
        """Does the same as `tool`, having waited for its server if that is still connecting."""
        if self._gateway.catalogue.find(name) is None:
            await self._gateway.settle(re.split(f"{SEPARATOR}|:", name, maxsplit=1)[0])
        return self.tool(name, grant)

    async def changed(self, seen: CatalogueState | None) -> CatalogueState:
        """Wait until there are other tools or skills than ``seen``, and return what there is."""
        if seen is not None:
            tools, skills = seen
            await first_of(
                partial(self._gateway.changed, tools), partial(self._skills.feed.changed, skills)
            )
        return self._gateway.catalogue, self._skills.catalogue

    async def module(
        self,
        language: Language,
        names: Sequence[str] = (),
        *,
        compact: bool = False,
        grant: Grant = EVERYTHING,
    ) -> Module:
        """Returns a typed client of the caller's tools, or of those that ``names`` choose.

        A name is a server's or a tool's id; a server that is still connecting is waited for.
        Raises `UnknownNameError` with every name that chooses nothing, and
        `NotReadyError` where there is no tool at all.
        """
        view = self._view(grant)
        for name in names:
            if not view.chosen(name):
                await self._gateway.settle(name.partition(SEPARATOR)[0])
        request = ModuleRequest(language, view.selected(names), compact)
        catalogue = self._gateway.catalogue
        if self._clients is None or self._clients[0] is not catalogue:
            self._clients = (catalogue, Clients(catalogue.tools))
        return await anyio.to_thread.run_sync(self._clients[1].module, request)

    # Calling

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
        ``history`` it is, or by itself. Raises what `tool`, `check_foreign_arguments` and
        `Upstream.request` raise.
        """
        builtin = self._builtin(name, grant)
        if builtin:
            return await anyio.to_thread.run_sync(builtin.call, arguments)
        tool = await self.tool_when_ready(name, grant)
        await check_foreign_arguments(tool.id, tool.input_schema, arguments)
        params = {"name": tool.name, "arguments": dict(arguments), **more}
        learn = partial(self._learn, history or SessionHistory(), tool.id)
        try:
            result = await self.request(tool.server, "tools/call", params, caller, grant)
        except UpstreamError:
            learn(succeeded=False)
            raise
        if result.get("resultType") != "input_required":
            learn(succeeded=not result.get("isError"))
        return result

    def _learn(self, history: SessionHistory, tool: str, *, succeeded: bool) -> None:
        if self._learning is not None:
            self._learning.record_call(history, tool, succeeded=succeeded)

    def _builtin(self, name: str, grant: Grant) -> BuiltinTool | None:
        """The built-in tool of a name, unless a server of the configuration has taken it."""
        taken = {server.name for server in self._gateway.config.servers}
        for tool in self._builtin_tools:
            if tool.answers_to(name) and tool.spec.server not in taken:
                return tool if grant.allows(tool.spec.id) else None
        return None

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

    def _view(self, grant: Grant) -> ScopedCatalogue:
        return ScopedCatalogue(self._gateway, grant)


def _merged(tools: SearchResult, skills: SearchResult) -> SearchResult:
    """Returns two results as one list by (−score, id): both scores are on the same scale."""
    hits = sorted(
        (*tools.hits, *skills.hits),
        key=lambda hit: (-hit.score, hit.document.parent_id or hit.document.id),
    )[: tools.limit]
    nearest = [hit for hit in (tools.below, skills.below) if hit and not hits]
    return replace(
        tools,
        hits=tuple(hits),
        below=max(nearest, key=lambda hit: hit.score, default=None),
        degraded=tuple(dict.fromkeys((*tools.degraded, *skills.degraded))),
    )


async def first_of(*waits: Callable[[], Awaitable[object]]) -> None:
    """Return when one of these has returned; the others are cancelled."""

    async def wait_for(wait: Callable[[], Awaitable[object]]) -> None:
        await wait()
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for wait in waits:
            tasks.start_soon(wait_for, wait)
