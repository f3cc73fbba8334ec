"""The application: everything that surfaces ask of toolscript, whatever protocol they speak.

Knows no wire and no file format. What only concerns the servers and their tools is asked of
`App.catalogue`, what concerns skills of `App.skills`, and what was learned of `App.learning`.
"""

import dataclasses
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
from msgspec.structs import replace

from toolscript.app.activity_recorder import ActivityRecorder
from toolscript.app.argument_checks import check_foreign_arguments
from toolscript.app.builtin_tools import BuiltinTool
from toolscript.app.call_approvals import Approvals
from toolscript.app.health import PUBLIC_STATS, DatabaseState, DownloadState, Health, search_stats
from toolscript.app.kept_questions import KeptQuestions
from toolscript.app.output_checks import OutputChecks
from toolscript.app.result_store import ResultStore
from toolscript.app.scoped_catalogue import ScopedCatalogue
from toolscript.app.task_monitor import TaskMonitor
from toolscript.app.tool_feed import ToolFeed
from toolscript.app.tool_permissions import ToolPermissions
from toolscript.config.follower import Follower
from toolscript.config.permission_rules import decide, literal
from toolscript.config.servers import Config
from toolscript.errors import (
    DeniedError,
    InputError,
    NotReadyError,
    OutdatedDecisionError,
    ToolClassError,
    UnknownNameError,
    UpstreamError,
)
from toolscript.gateway.base import SILENT_CALLER, Caller
from toolscript.gateway.definitions.comparison import HeldTool
from toolscript.gateway.definitions.normal_form import normal_form
from toolscript.gateway.gateway import Gateway
from toolscript.gateway.snapshot import SnapshotStore
from toolscript.graph.learning import Learning
from toolscript.graph.session_history import SessionHistory
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.live_index import SEARCH_TIMEOUT_S, Feed, LiveIndex
from toolscript.retrieval.profiles import Profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.skills.service import SkillService
from toolscript.text.display import printable
from toolscript.tracing import fail, span, tool_call
from toolscript.types import (
    EVERYTHING,
    TOOL_CLASSES,
    Grant,
    SearchRequest,
    SearchResult,
    ToolClass,
    ToolSpec,
)

NEAR = 0.1
"""A held tool is told of where its score falls short of the best result's by less."""


class App:
    """Gateway, index and engine, wired. Use it inside ``async with app.running()``.

    A ``grant`` limits what the caller sees; everything else is neither named nor counted.
    `toolscript.application` makes one.

    Args:
        gateway: Connects to the servers and knows their tools.
        engine: Searches the tools.
        semantic: The engine's semantic signal, for the statistics.
        snapshots: Where the catalogue is kept for the next start.
        skills: Follows and searches the skills.
        builtin_tools: Tools that this process answers itself.
        search_timeout_s: How long a search may take.
        follower: Takes over changes of the configuration; None follows none.
        learning: Learns from calls; None learns nothing.
        approvals: Asks a person about calls.
        activity: Records calls; None records none.
        questions: Keeps questions whose right tools are known.
        close: Called once `running` has ended.
        database: Says how the database is doing that several gateways share; None without one.
    """

    def __init__(  # noqa: PLR0913 - the parts that bootstrap wires
        self,
        gateway: Gateway,
        engine: SearchEngine,
        semantic: SemanticSignal,
        snapshots: SnapshotStore,
        skills: SkillService,
        *,
        builtin_tools: Sequence[BuiltinTool] = (),
        search_timeout_s: float = SEARCH_TIMEOUT_S,
        follower: Follower | None = None,
        learning: Learning | None = None,
        approvals: Approvals,
        activity: ActivityRecorder | None = None,
        questions: KeptQuestions | None = None,
        close: Callable[[], object] | None = None,
        database: Callable[[], DatabaseState] | None = None,
    ) -> None:
        self.permissions = ToolPermissions(gateway)
        """What is decided about calls without a person."""
        self.approvals = approvals
        """Asks a person, and remembers the answers."""
        self.results = ResultStore()
        """Results that were too long for models."""
        self.tasks = TaskMonitor()
        """The background tasks; a surface runs its own among them."""
        self.skills = skills
        self.learning = learning
        """What is learned from use; None if nothing is."""
        self.activity = activity
        """Where surfaces record calls; None if none are recorded."""
        self.questions = questions
        """The questions that are kept; None if none are."""
        self._close = close
        self._database = database
        self._gateway = gateway
        self._semantic = semantic
        self._feed = ToolFeed(gateway, snapshots, learning)
        self._index = LiveIndex(engine, self._feed, search_timeout_s)
        self._builtin_tools = builtin_tools
        self._follower = follower
        self._output_checks = OutputChecks()
        self._was_complete = False
        """Whether all tools were indexed once: from then on a change costs only what is new."""

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
            if self.learning is not None:
                self.learning.close()
            if self.activity is not None:
                self.activity.close()
            if self._close is not None:
                self._close()
            self.results.close()
        self.tasks.check()
        if failure is not None:
            raise failure

    def _background(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """The tasks, by the names that ``/health`` has for them."""
        tasks: dict[str, Callable[[], Awaitable[None]]] = {
            "index": self._index.run,
            "servers": self._gateway.run,
            "skills": self.skills.run,
        }
        if self.activity is not None:
            tasks["activity"] = self.activity.run
        if self._follower:
            tasks["configuration"] = partial(self._follower.run, self._configure)
        return tasks

    def _configure(self, config: Config) -> None:
        self._gateway.configure(config)
        self.skills.feed.folders.configure(config.skills, config.skills_problem)

    # How it is doing

    @property
    def feeds(self) -> tuple[Feed[Any], ...]:
        """The feeds of tools and of skills: each can be waited on for a change."""
        return self._feed, self.skills.feed

    @property
    def profile(self) -> Profile:
        """What a search of tools uses where the request says nothing else."""
        return self._index.engine.profile

    @property
    def searchable(self) -> bool:
        """Whether any tool is indexed, so that a search can answer."""
        return self._indexed > 0

    @property
    def _indexed(self) -> int:
        """How many tools can be found: not the held ones, which are indexed as well."""
        return max(0, self._index.indexed - len(self._gateway.catalogue.held))

    def search_obstacle(self) -> str:
        """Returns why no search can be answered, without a server's name; empty if one can be.

        After the start none can until every server has settled and every tool is indexed.
        """
        if self.tasks.failure:
            return "a background task has failed; the gateway ends"
        database = self.database
        if database is not None and not database.fits:
            return database.problem
        self._was_complete |= self._gateway.settled and self._index.ready
        if not self._was_complete:
            return "the tools are being listed and indexed; try again"
        if self.searchable or self.skills.index.indexed:
            return ""
        return "there is nothing to search; see: toolscript gateway status"

    @property
    def database(self) -> DatabaseState | None:
        """How the database is doing that several gateways share; None without one."""
        return self._database() if self._database is not None else None

    async def ready(self) -> None:
        """Return when every server has settled and every tool and skill is fully indexed."""
        while not (self._gateway.settled and self._index.ready):
            await self._gateway.settle()
            await self._index.settled()
        await self.skills.settled()

    def catalogue(self, grant: Grant = EVERYTHING) -> ScopedCatalogue:
        """Returns the servers and their tools, as far as ``grant`` lets the caller see them."""
        return ScopedCatalogue(self._gateway, self._builtin_tools, grant, self.permissions)

    def skill_grant(self, grant: Grant) -> Grant:
        """Returns what rules leave of a grant for skills: see `ToolPermissions.denies_reading`."""
        skills = [skill.id for skill in self.skills.visible(grant)]
        left = [each for each in skills if not self.permissions.denies_reading(grant, each)]
        if left == skills:
            return grant
        return replace(grant, servers=(), tools=tuple(map(literal, left)))

    def health(self, grant: Grant = EVERYTHING) -> Health:
        """Returns how the application is doing, as far as ``grant`` lets the caller know."""
        catalogue = self.catalogue(grant)
        health = Health(
            ready=not self.tasks.failure
            and self._gateway.settled
            and self._index.ready
            and not self.skills.awaited,
            waiting_for=catalogue.unsettled(),
            tools=self._indexed if grant.is_whole else len(catalogue.tools()),
            download=DownloadState.of(self._semantic.model),
            failure=self.tasks.failure,
        )
        if not grant.is_whole:
            return health
        learning = {"learning": self.learning.state} if self.learning is not None else {}
        return dataclasses.replace(
            health,
            tools_waiting=self._index.waiting,
            passages_waiting=self.skills.index.waiting,
            configuration=self._gateway.config.stamp,
            configuration_problem=self._follower.problem if self._follower else "",
            folder=self._gateway.project if grant.is_owner else "",
            tasks={**self.tasks.states, **learning},
            database=self.database,
        )

    def stats(self, grant: Grant = EVERYTHING) -> dict[str, object]:
        """Returns what is indexed, by what, and how much of it was computed or remembered.

        ``grant`` says how much of that the caller may know.
        """
        stats = search_stats(self._index, self._semantic) | {"toolsIndexed": self._indexed}
        if grant.is_whole:
            return stats
        public = {name: stats[name] for name in PUBLIC_STATS}
        return {"toolsIndexed": len(self.catalogue(grant).tools()), **public}

    # Who calls

    @property
    def separates_callers(self) -> bool:
        """Whether any server has instances of its own for projects or sessions."""
        return self._gateway.separates_callers

    def meet(self, caller: Caller) -> None:
        """Takes note of a caller: see `Gateway.meet`."""
        self._gateway.meet(caller)

    def end_session(self, session: str) -> None:
        """Stops the servers that only a session has used, which has ended."""
        self._gateway.end_session(session)
        self.approvals.end_session(session)

    # Searching

    async def search(
        self, request: SearchRequest, history: SessionHistory | None = None
    ) -> SearchResult:
        """Returns the tools that answer.

        Args:
            request: The question, and what its caller wants otherwise than the settings have it.
            history: The session that asks: the search is recorded in it.

        Raises:
            NotReadyError: There is nothing to search yet.
            UnknownNameError: A server of the request is not configured.
            SearchTimeoutError: The search took too long.
            QueryError: The query is empty or too long.
            RangeError: The limit, the threshold or α is outside its range.
        """
        catalogue = self.catalogue(request.grant)
        catalogue.check(request.servers)
        with span("search") as current:
            result = await self._search(request, catalogue)
            current.set_attribute("toolscript.hits", len(result.hits))
            current.set_attribute("toolscript.degraded", bool(result.degraded))
        if history is not None and not request.skills:
            history.record_search(request.text, [hit.document.id for hit in result.hits])
        return result

    async def _search(self, request: SearchRequest, catalogue: ScopedCatalogue) -> SearchResult:
        if request.skills:
            return await self._search_both(request, catalogue)
        if not self.searchable:
            fault = self._index.fault
            raise NotReadyError(
                f"no tools can be searched; {fault}" if fault else catalogue.nothing()
            )
        held, denied = self._gateway.catalogue.held, self.permissions.denied(request.grant)
        result = await self._index.search(replace(request, hidden=denied.union(held)))
        if any(map(request.grant.allows, held)):
            every = replace(request, hidden=denied, why="", explain=False)
            best = result.hits[0].score if result.hits else 0.0
            near = [h for h in (await self._index.search(every)).hits if h.score > best - NEAR]
            servers = [h.document.server for h in near if catalogue.is_awaited(h.document.id)]
            result = replace(result, held=tuple(servers))
        if request.why and result.why is None:
            result = replace(result, why=catalogue.why_missing(request.why))
        return result

    async def _search_both(
        self, request: SearchRequest, catalogue: ScopedCatalogue
    ) -> SearchResult:
        tools_only = replace(request, skills=False)
        of_skills = replace(tools_only, servers=(), why="", grant=self.skill_grant(request.grant))
        skills = await self.skills.search(of_skills)
        if not self.searchable and skills.hits:
            return skills
        return _merged(await self._search(tools_only, catalogue), skills)

    # Calling

    async def call(  # noqa: PLR0913 - what a call consists of
        self,
        name: str,
        arguments: Mapping[str, Any],
        caller: Caller = SILENT_CALLER,
        grant: Grant = EVERYTHING,
        *,
        history: SessionHistory | None = None,
        session: str = "",
        classes: Collection[ToolClass] = TOOL_CLASSES,
        checked: bool = True,
        **more: Any,
    ) -> dict[str, Any]:
        """Call a tool. The result is its server's, as on the wire of MCP; ``isError`` included.

        That the tool was called, and whether it succeeded, is learned from.

        Args:
            name: The tool's id, or its name where only one server has it.
            arguments: The arguments, which have to fit the tool's schema.
            caller: Gets notifications of progress and answers the server's questions.
            grant: What the caller may call.
            history: The session of which the call is a step; None: of a session by itself.
            session: The id of that session: a person may allow a tool for the whole of it.
            classes: What the tool may be; a tool of another class is not called.
            checked: Whether the tool's schema is applied to the arguments before its server
                judges them.
            more: Further members of the call's parameters in MCP.

        Raises:
            UnknownNameError: The caller knows no such tool.
            ToolClassError: The tool is of another class than ``classes``.
            HeldError: The tool's definition has changed, and waits for approval.
            DeniedError: A rule or a person denies the call.
            ArgumentsError: The arguments do not fit the tool's schema.
            UpstreamError: The server is not connected, refuses the call or does not answer.
        """
        catalogue = self.catalogue(grant)
        builtin = catalogue.builtin_tool(name)
        if builtin:
            check_class(builtin.spec, classes)
            await self._permit(builtin.spec, arguments, caller, grant, session)
            return await anyio.to_thread.run_sync(builtin.call, arguments)
        try:
            tool = await catalogue.tool_when_ready(name)
        except UnknownNameError:
            await catalogue.reach_server(name, caller)
            tool = catalogue.tool(name)
        check_class(tool, classes)
        if checked:
            arguments = await check_foreign_arguments(tool.id, tool.input_schema, arguments)
        await self._permit(tool, arguments, caller, grant, session)
        params = {"name": tool.name, "arguments": dict(arguments), **more}
        learn = partial(self._learn, history or SessionHistory(), tool.id, grant)
        try:
            with tool_call(tool.server, tool.name) as current:
                result = await catalogue.request(tool.server, "tools/call", params, caller)
                if result.get("isError"):
                    fail(current, "tool_error")
        except UpstreamError:
            learn(succeeded=False)
            raise
        if result.get("resultType") != "input_required":
            learn(succeeded=not result.get("isError"))
        await self._output_checks.check(tool, result)
        return result

    async def _permit(
        self,
        tool: ToolSpec,
        arguments: Mapping[str, Any],
        caller: Caller,
        grant: Grant,
        session: str,
    ) -> None:
        """Returns where a call is allowed by the rules or by a person; else raises `DeniedError`.

        Without a rule only a caller that can ask its user is asked: any other one has decided.
        """
        decision, why = self.permissions.decision(grant, tool)
        if decision == "deny":
            raise DeniedError(f"{tool.id} may not be called: {why}")
        if decision == "ask" and (why or caller.may_be_asked):
            why = why or "destructive tools are asked about"
            secrets = self._gateway.secrets_of(tool.server)
            own = decide((grant.permissions,), tool.id, tool.tool_class)
            if own is not None and own.decision == "ask":  # its bearer is who it binds
                caller = SILENT_CALLER
            await self.approvals.ask(tool, arguments, caller, grant.holder, session, why, secrets)

    async def request_as_owner(
        self, server: str, digest: str, method: str, params: dict[str, Any], caller: Caller
    ) -> dict[str, Any]:
        """Passes a request of another replica on to a server that this one runs.

        Args:
            server: The server's name.
            digest: The digest of the server's entry in the other replica.
            method: The method of MCP.
            params: The method's parameters.
            caller: Who asks.

        Raises:
            NotOwnerError: This replica does not run the server, or its entry is another one.
        """
        return await self._gateway.request_as_owner(server, digest, method, params, caller)

    async def review(
        self,
        approved: Collection[str] = (),
        rejected: Collection[str] = (),
        *,
        seen: Mapping[str, str] | None = None,
    ) -> None:
        """Approves and rejects tools: all of them, or none if an error is raised.

        Args:
            approved: The ids of held tools that are approved.
            rejected: The ids of tools that are rejected. One that is not held loses its approval.
            seen: The `HeldTool.digest` of each that a person has looked at, by its id; None
                decides about them as they are now.

        Raises:
            InputError: A tool is both approved and rejected.
            UnknownNameError: No tool to decide about has one of the ids.
            OutdatedDecisionError: One of them is another than ``seen`` has it.
            DecisionStorageError: The decision cannot be stored.
        """
        for name in {*approved} & {*rejected}:
            raise InputError(f"{printable(name, 100)!r} is to be approved and rejected; choose one")
        held = self._gateway.catalogue.held
        accepted = self._gateway.catalogue.tools
        withdrawn = {
            name: HeldTool(
                tool=accepted[name],
                reason="withdrawn",
                before=normal_form(accepted[name]),
                rejected=True,
            )
            for name in rejected
            if name in accepted
        }
        chosen = [_chosen(approved, held, seen), _chosen(rejected, {**withdrawn, **held}, seen)]
        await self._gateway.approve(chosen[0])
        await self._gateway.reject(chosen[1])

    def _learn(self, history: SessionHistory, tool: str, grant: Grant, *, succeeded: bool) -> None:
        if self.learning is not None:
            self.learning.record_call(history, tool, succeeded=succeeded, grant=grant)


def check_class(tool: ToolSpec, classes: Collection[ToolClass]) -> None:
    """Raises `ToolClassError` for a tool that is of none of these classes."""
    if tool.tool_class not in classes:
        allowed = " or ".join(classes)
        raise ToolClassError(
            f"{tool.id} is a {tool.tool_class} tool, and this call is for {allowed} tools",
            tool.tool_class,
        )


def _chosen(
    names: Collection[str], tools: Mapping[str, HeldTool], seen: Mapping[str, str] | None
) -> list[HeldTool]:
    """Returns the tools that a decision names; see `App.review` for the errors."""
    for name in names:
        if name not in tools:
            known = ", ".join(tools) or "nothing"
            raise UnknownNameError(f"{printable(name, 100)!r} is not held; held is: {known}")
    chosen = [tools[name] for name in dict.fromkeys(names)]
    for each in chosen:
        if seen is not None and seen.get(each.tool.id) != each.digest:
            raise OutdatedDecisionError(
                f"{each.tool.id} has changed since it was looked at, and nothing is decided; "
                f"look at it with: toolscript review {each.tool.server}"
            )
    return chosen


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
