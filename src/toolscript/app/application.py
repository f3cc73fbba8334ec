"""The application: everything that surfaces ask of toolscript, whatever protocol they speak.

Knows no wire and no file format, and wires the parts: `searching`, `calls`, `health`.
`App.catalogue` answers for the servers and their tools, `App.skills` for skills, both as far as
the caller may see them.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from toolscript.app.activity_recorder import ActivityRecorder
from toolscript.app.base import ScriptDoor, ScriptOutcome, Stores
from toolscript.app.builtin_tools import BuiltinTool
from toolscript.app.bytes_under_way import BytesUnderWay
from toolscript.app.call_approvals import Approvals, RememberedAnswers
from toolscript.app.calls import Calls
from toolscript.app.health import HealthMonitor
from toolscript.app.result_store import ResultStore
from toolscript.app.scoped_catalogue import ScopedCatalogue
from toolscript.app.searching import Searches
from toolscript.app.task_monitor import TaskMonitor
from toolscript.app.tool_permissions import ToolPermissions
from toolscript.config.follower import Follower
from toolscript.config.servers import Config
from toolscript.config.settings import CallSettings
from toolscript.errors import ConfigError, InputError, OutdatedDecisionError, UnknownNameError
from toolscript.gateway.base import Caller, DatabaseState
from toolscript.gateway.catalogue import Catalogue
from toolscript.gateway.definitions.comparison import HeldTool
from toolscript.gateway.definitions.normal_form import normal_form
from toolscript.gateway.gateway import Gateway
from toolscript.install_command import install_command
from toolscript.retrieval.live_index import Feed, LiveIndex
from toolscript.retrieval.profiles import SearchProfile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.skills.scoped_skills import ScopedSkills
from toolscript.skills.service import SkillService
from toolscript.text.display import printable
from toolscript.types import BUILTIN, EVERYTHING, Grant

if TYPE_CHECKING:
    from toolscript.app.script_sandbox import Scripts


class App:
    """Gateway, index and engine, wired. Use it inside ``async with app.running()``.

    A ``grant`` limits what the caller sees; everything else is neither named nor counted.
    `toolscript.application` makes one.

    Args:
        gateway: Connects to the servers and knows their tools.
        index: Searches the tools.
        semantic: The semantic signal of the index, for the statistics.
        skills: Follows and searches the skills.
        stores: Outlive the application; closed once `running` has ended.
        calls: Whether and how long a person is asked about a call, and whether it is recorded.
        builtin_tools: Tools that this process answers itself.
        follower: Takes over changes of the configuration; None follows none.
        results: Stores results that are too long for models.
    """

    def __init__(  # noqa: PLR0913 - the parts that bootstrap wires
        self,
        gateway: Gateway,
        index: LiveIndex[Catalogue],
        semantic: SemanticSignal,
        skills: SkillService,
        stores: Stores,
        *,
        calls: CallSettings,
        builtin_tools: Sequence[BuiltinTool] = (),
        follower: Follower | None = None,
        results: ResultStore,
    ) -> None:
        self.permissions = ToolPermissions(gateway)
        """Decides about calls by rules, without a person."""
        self.approvals = Approvals(
            RememberedAnswers(stores.records("answers")), calls.approval_timeout_s
        )
        """Asks a person, and remembers the answers."""
        self.results = results
        self.under_way = BytesUnderWay()
        """Counts the bytes of requests, and of the calls of scripts."""
        self.runs_scripts = calls.scripts
        """Whether models may write scripts."""
        self._sandbox = _load_sandbox(self.under_way) if calls.scripts else None
        self.tasks = TaskMonitor()
        """The background tasks; a surface runs its own among them."""
        self._skills = skills
        self.learning = index.engine.learning
        """Learns from use; None if nothing is learned."""
        self.activity = ActivityRecorder(stores.activity)
        """Records calls for surfaces."""
        self._stores = stores
        self._gateway = gateway
        self._index = index
        self._builtin_tools = builtin_tools
        self._follower = follower
        self._searches = Searches(gateway, index, self.permissions, self.catalogue, self.skills)
        self.search = self._searches.search
        """Finds tools, and skills if asked to: see `Searches.search`."""
        self.call = Calls(
            self.catalogue,
            self.approvals,
            self.learning,
            lambda: follower.broken_rules if follower else "",
        ).call
        """Calls a tool: see `Calls.call`."""
        self.review = partial(review, gateway)
        """Approves and rejects tools: see `review`."""
        self._monitor = HealthMonitor(
            gateway,
            index,
            semantic,
            skills,
            stores,
            self.tasks,
            self.activity,
            follower,
            self.catalogue,
        )
        self.ready, self.search_obstacle = self._monitor.ready, self._monitor.search_obstacle
        self.health, self.stats = self._monitor.health, self._monitor.stats
        """How the application is doing: see the methods of `HealthMonitor`."""

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
            self._index.feed.save(self._gateway.catalogue)
            if self.learning is not None:
                self.learning.close()
            self.activity.close()
            self._stores.close()
            self.results.close()
            if self._sandbox is not None:
                self._sandbox.close()
        self.tasks.check()
        if failure is not None:
            raise failure

    def _background(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """The tasks, by the names that ``/health`` has for them."""
        tasks: dict[str, Callable[[], Awaitable[None]]] = {
            "index": self._index.run,
            "servers": self._gateway.run,
            "skills": self._skills.run,
            "activity": self.activity.run,
        }
        if self._follower:
            tasks["configuration"] = partial(self._follower.run, self._configure)
        return tasks

    def _configure(self, config: Config) -> None:
        self._gateway.configure(config)
        self._skills.feed.folders.configure(config.skills, config.skills_problem)

    @property
    def feeds(self) -> tuple[Feed[Any], ...]:
        """The feeds of tools and of skills: each can be waited on for a change."""
        return self._index.feed, self._skills.feed

    @property
    def profile(self) -> SearchProfile:
        """The settings of a search of tools whose request has none of its own."""
        return self._index.engine.profile

    @property
    def searchable(self) -> bool:
        """Whether any tool is indexed, so that a search can answer."""
        return self._searches.indexed > 0

    @property
    def database(self) -> DatabaseState | None:
        """How the database is doing that several gateways share; None without one."""
        return self._monitor.database

    def catalogue(self, grant: Grant = EVERYTHING) -> ScopedCatalogue:
        """Returns the servers and their tools, as far as ``grant`` lets the caller see them."""
        grant = self.permissions.narrow(grant)
        return ScopedCatalogue(self._gateway, self._builtin_tools, grant, self.permissions)

    async def run_script(self, script: str, grant: Grant, door: ScriptDoor) -> ScriptOutcome:
        """Runs a script, which may call the tools for models that ``grant`` allows.

        Args:
            script: A program in Python.
            grant: The rights of the caller.
            door: Makes the calls of the script.

        Raises the errors of `Scripts.run`, and `UnknownNameError` if scripts are off.
        """
        if self._sandbox is None:
            raise UnknownNameError(
                "scripts are off here; the user turns them on with: "
                "toolscript gateway start --scripts"
            )
        tools = [tool for tool in self.catalogue(grant).tools() if tool.is_for_models]
        allowed = {tool.id: tool for tool in tools if tool.server != BUILTIN}
        return await self._sandbox.run(script, self._gateway.catalogue.tools, allowed, door)

    def skills(self, grant: Grant = EVERYTHING, *, by_model: bool = False) -> ScopedSkills:
        """Returns the skills, as far as ``grant`` and the rules let the caller read them.

        Args:
            grant: The rights of the caller.
            by_model: Whether a model asks: it gets no skill that is for people alone.
        """
        skills = self._skills.feed.catalogue.skills.values()
        withheld = {skill.id for skill in skills if by_model and not skill.is_for_models}
        ids = [skill.id for skill in skills]
        readable = self.permissions.readable(self.permissions.narrow(grant), ids, withheld)
        return ScopedSkills(self._skills, readable)

    @property
    def separates_callers(self) -> bool:
        """Whether any server has instances of its own for projects or sessions."""
        return self._gateway.separates_callers

    def meet(self, caller: Caller) -> None:
        """Takes note of a caller: see `Gateway.meet`."""
        self._gateway.meet(caller)

    def end_session(self, session: str) -> None:
        """Stops the servers that only a session has used, which has ended; drops its results."""
        self._gateway.end_session(session)
        self.approvals.end_session(session)
        self.results.end_session(session)


def _load_sandbox(under_way: BytesUnderWay) -> "Scripts":
    try:
        from toolscript.app.script_sandbox import Scripts  # noqa: PLC0415 - of an extra
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"scripts need {error.name}, which is not installed; install it with: "
            f"{install_command('scripts')}, or leave out --scripts"
        ) from None
    return Scripts(under_way)


async def review(
    gateway: Gateway,
    approved: Collection[str] = (),
    rejected: Collection[str] = (),
    *,
    seen: Mapping[str, str] | None = None,
) -> None:
    """Approves and rejects tools: all of them, or none if an error is raised.

    Args:
        gateway: Has the tools, and stores the decision.
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
    held = gateway.catalogue.held
    accepted = gateway.catalogue.tools
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
    to_approve = _choose(approved, held, seen)
    to_reject = _choose(rejected, {**withdrawn, **held}, seen)
    await gateway.approve(to_approve)
    await gateway.reject(to_reject)


def _choose(
    names: Collection[str], tools: Mapping[str, HeldTool], seen: Mapping[str, str] | None
) -> list[HeldTool]:
    """Returns the tools that a decision names; see `review` for the errors."""
    for name in names:
        if name not in tools:
            known = ", ".join(tools) or "nothing"
            raise UnknownNameError(f"{printable(name, 100)!r} is not held; held is: {known}")
    chosen = [tools[name] for name in dict.fromkeys(names)]
    for held in chosen:
        if seen is not None and seen.get(held.tool.id) != held.digest:
            raise OutdatedDecisionError(
                f"{held.tool.id} has changed since it was looked at, and nothing is decided; "
                f"look at it with: toolscript review {held.tool.server}"
            )
    return chosen
