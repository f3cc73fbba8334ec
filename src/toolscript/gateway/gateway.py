"""Runs an instance of each configured server, and merges their tools into a catalogue."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup

from toolscript.config.secret_store import SecretStore, resolve_secrets
from toolscript.config.servers import Config
from toolscript.errors import InputError, NotConnectedError, NotOwnerError, SecretStoreError
from toolscript.gateway.base import (
    Caller,
    Connect,
    Ready,
    Report,
)
from toolscript.gateway.catalogue import Catalogue, ObservableCatalogue, ServerEntry
from toolscript.gateway.definition_approval import DefinitionApproval
from toolscript.gateway.definitions.comparison import HeldTool, Version, held_message
from toolscript.gateway.definitions.pins import DefinitionPins
from toolscript.gateway.instance import Instance, InstanceEndedError, ProcessLimit
from toolscript.gateway.managed_server import ManagedServer, status_of
from toolscript.gateway.process.process_resources import measure
from toolscript.gateway.process.stderr_log import last_lines
from toolscript.gateway.run_policy import RUN_ALL, RunPolicy
from toolscript.text.display import encodable
from toolscript.text.redaction import redact
from toolscript.text.timestamps import utc_timestamp
from toolscript.types import (
    RESULT_LIMIT,
    ServerResources,
    ServerSpec,
    ServerStatus,
    ToolSpec,
    tool_id,
)


class Gateway:
    """All servers of one configuration, which are connected to while `run` runs.

    Args:
        config: The configuration.
        known: The snapshot to start from: an entry counts until its server reports.
        connector: Returns what makes upstreams; its imports take most of a second.
        pins: The definitions that were accepted.
        policy: Which servers run, and for how long.
        project: The folder that counts as the project of callers that name none.
        logs: The folder of the files that have what servers write on standard error.
        secrets: The secrets that servers' entries name.
    """

    def __init__(  # noqa: PLR0913 - what bootstrap wires, each by its name
        self,
        config: Config,
        known: Catalogue,
        connector: Callable[[], Connect],
        pins: DefinitionPins,
        *,
        policy: RunPolicy = RUN_ALL,
        project: str = "",
        logs: Path = Path(),
        secrets: SecretStore | None = None,
    ) -> None:
        self.config = config
        self._secrets = secrets or SecretStore(Path())
        self._connector = connector
        self._policy = policy
        self._limit = ProcessLimit(policy.max_processes)
        self.project = project
        self._projects = {project}
        self._tasks: TaskGroup | None = None
        self._logs = logs
        repairs = {spec.name: spec.repairs for spec in config.servers if spec.repairs}
        self._catalogue = ObservableCatalogue(Catalogue(known.servers, repairs))
        wanted = [spec for spec in enabled(config) if policy.only in {None, spec.name}]
        self._managed = {spec.name: self._manage(spec) for spec in wanted}
        self._approval = DefinitionApproval(pins, self._catalogue, self._managed)
        self._running: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)
        """Held by the task of the server of this name."""
        self._loading = anyio.Lock()
        self._connect: Connect | None = None

    @property
    def catalogue(self) -> Catalogue:
        """The tools of all servers as they are known now."""
        return self._catalogue.current

    def owns(self, spec: ServerSpec) -> bool:
        """Whether this process lists the tools of a server, and may run one that only one runs."""
        del spec
        return True

    async def changed(self, seen: Catalogue | None) -> Catalogue:
        """Returns the catalogue, once it is another than ``seen``."""
        return await self._catalogue.changed(seen)

    @property
    def settled(self) -> bool:
        """Whether of every server the tools are known, or it has failed."""
        return not self.unsettled

    @property
    def unsettled(self) -> list[str]:
        """The servers whose tools are not known yet, and that have not failed either."""
        return [name for name, managed in self._managed.items() if not managed.settled.is_set()]

    async def settle(self, server: str | None = None) -> None:
        """Waits until `settled`, or until the given server is."""
        while waiting := [name for name in self.unsettled if server in {None, name}]:
            await self._managed[waiting[0]].settled.wait()

    async def run(self) -> None:
        """Runs every upstream until cancelled. No upstream's failure affects another."""
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                for managed in self._managed.values():
                    tasks.start_soon(self._hold, managed, name=managed.spec.name)
                await self._watch(tasks)
        finally:
            if self._connect is not None:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(self._connect.close)

    async def _watch(self, tasks: TaskGroup) -> None:
        """Watches whatever else decides which servers run, until cancelled."""
        del tasks
        await anyio.sleep_forever()

    def configure(self, config: Config) -> None:
        """Changes the configuration. Servers whose entry is the same stay connected.

        What is known of a changed server counts until the new connection has settled.
        """
        wanted = {spec.name: spec for spec in enabled(config)}
        self.config = config
        for name, managed in list(self._managed.items()):
            if name not in wanted or not wanted[name].is_started_as(managed.spec):
                self._end(managed)
        for name in [name for name in wanted if name not in self._managed]:
            self._begin(wanted[name])
            self._projects = {self.project}  # any may have to start it
        self._catalogue.publish(self.catalogue.keeping(wanted))

    async def route(
        self, server: str, method: str, params: dict[str, Any], caller: Caller
    ) -> dict[str, Any]:
        """Passes a request on to the instance of a server that serves the caller.

        See `Upstream.send`.
        """
        managed = self.managed(server)
        spec = managed.spec
        async with managed.queue.turn(caller.session_id or id(caller.session_key)):
            while self._managed.get(server) is managed:
                instance = managed.instance_of(caller)
                try:
                    return await instance.serve(method, params, caller)
                except InstanceEndedError:
                    # A temporary one was stopped just now: the next one serves.
                    if instance is managed.default:
                        break
                    await instance.removed.wait()
        if spec.instances == "one" and not self.owns(spec):
            raise NotOwnerError(f"{server} is not run by this replica; try again")
        raise NotConnectedError(f"{server} has just been reconfigured; try again")

    def managed(self, server: str) -> ManagedServer:
        """Returns a server that this process connects to; raises `NotConnectedError` for others."""
        managed = self._managed.get(server)
        if managed is None:
            raise NotConnectedError(f"{server} is not connected to by this process")
        return managed

    @property
    def separates_callers(self) -> bool:
        """Whether any server has instances of its own for projects or sessions."""
        return any(not spec.is_single for spec in self.config.servers)

    def meet(self, caller: Caller) -> None:
        """Starts the servers that can list their tools in the caller's project, if none did yet."""
        if caller.project in self._projects:
            return
        self._projects.add(caller.project)
        for name, managed in self._managed.items():
            entry = self.catalogue.servers.get(name)
            if managed.spec.is_per_project and (entry is None or entry.state != "ready"):
                managed.instance_of(caller)

    def end_session(self, session: str) -> None:
        """Stops the servers that only this session has used."""
        for managed in self._managed.values():
            managed.end_session(session)

    def resting_list(self, server: str, method: str) -> Sequence[dict[str, Any]] | None:
        """Returns the entries that a resting server last gave; None if it has to be asked.

        ``method`` is one such as ``prompts/list``.
        """
        managed, entry = self._managed.get(server), self.catalogue.servers.get(server)
        if managed is None or entry is None or not managed.default.is_resting:
            return None
        return None if entry.lists is None else entry.lists.get(method, ())

    def secrets_of(self, server: str) -> tuple[str, ...]:
        """Returns the secrets of a server's entry and the stored ones: none may be shown."""
        spec = next((spec for spec in self.config.servers if spec.name == server), None)
        if spec is None:
            return ()
        with suppress(SecretStoreError):
            return resolve_secrets(spec, self._secrets, asks=False).secrets
        return spec.secrets

    def log(self, server: str, count: int) -> tuple[Path, list[str]]:
        """Returns the file of what a server wrote on standard error, and its last lines.

        What is secret in its entry is blanked. Raises `InputError` for a server without a log.
        """
        specs = enabled(self.config)
        if not any(spec.name == server and spec.transport == "stdio" for spec in specs):
            raise InputError(f"{server} has no log here: it is no program that is started")
        path, lines = last_lines(self._logs, server, count)
        return path, [redact(line, self.secrets_of(server)) for line in lines]

    def restart(self, server: str) -> None:
        """Stops a server's instances, whatever they do, and starts it anew.

        Raises `NotConnectedError` for one that this process does not run.
        """
        managed = self._managed.get(server)
        if managed is None or (managed.spec.instances == "one" and not managed.is_owned):
            raise NotConnectedError(f"{server} is not run by this gateway, or is disabled")
        self._end(managed)
        self._begin(managed.spec)
        self._managed[server].default.start()

    def result_limit(self, tool: ToolSpec) -> int:
        """Returns how many characters of a tool's result a model gets."""
        managed = self._managed.get(tool.server)
        return managed.spec.result_limit(tool.original.name) if managed else RESULT_LIMIT

    def pinned(self) -> list[ToolSpec]:
        """Returns the tools that the configuration pins, by id: models always see them."""
        pins = {spec.name: spec.pin_tools for spec in self.config.servers}
        return [
            tool
            for tool in self.catalogue.tools.values()
            if any(
                fnmatchcase(tool.original.name, pattern) for pattern in pins.get(tool.server, ())
            )
        ]

    async def versions(self, tool: ToolSpec) -> tuple[Version, ...]:
        """Returns the definitions of a tool that were accepted, the newest last."""
        return await self._approval.versions(tool.original)

    async def approve(self, held: Sequence[HeldTool]) -> None:
        """Accepts the definitions of held tools, which can be found and called from now on.

        Raises `DecisionStorageError`.
        """
        for spec, chosen in self._by_server(held):
            await self._approval.approve(spec, chosen)

    async def reject(self, held: Sequence[HeldTool]) -> None:
        """Remembers that these definitions are not wanted; they are held until they are approved.

        Raises `DecisionStorageError`.
        """
        for spec, chosen in self._by_server(held):
            await self._approval.reject(spec, chosen)

    def _find_known(self, spec: ServerSpec) -> ServerEntry | None:
        entry = self.catalogue.servers.get(spec.name)
        return entry if entry is not None and entry.digest == spec.digest else None

    def _begin(self, spec: ServerSpec) -> None:
        managed = self._managed[spec.name] = self._manage(spec)
        if self._tasks is not None:
            self._tasks.start_soon(self._hold, managed, name=spec.name)

    def _end(self, managed: ManagedServer) -> None:
        managed.release()
        del self._managed[managed.spec.name]

    def _by_server(self, held: Sequence[HeldTool]) -> list[tuple[ServerSpec, list[HeldTool]]]:
        specs = [s for s in self.config.servers if s.name in self.catalogue.servers]
        own = [msgspec.structs.replace(each, tool=each.tool.original) for each in held]
        chosen = [(s, [each for each in own if each.tool.server == s.name]) for s in specs]
        return [(spec, tools) for spec, tools in chosen if tools]

    def _manage(self, spec: ServerSpec) -> ManagedServer:
        known = self._find_known(spec)
        is_owned = self.owns(spec)
        # One that lacks a secret fails at once, instead of at its first call.
        lacks = not all(spec.secret_versions.values())
        starts = known is None or lacks or self._policy.starts(spec, known)
        rests = not (is_owned and starts)

        def make(expanded: ServerSpec, temporary: bool) -> Instance:  # noqa: FBT001 - of two kinds
            return Instance(
                expanded,
                self._client,
                lambda event: self._take(managed, event),
                self._limit,
                idle_s=self._policy.idle_s if spec.idle_timeout_s is None else spec.idle_timeout_s,
                is_known=rests and not temporary,
                is_temporary=temporary,
            )

        def begin(instance: Instance) -> None:
            if self._tasks is not None:
                self._tasks.start_soon(self._hold_temporary, managed, instance)

        managed = ManagedServer(spec, self.project, make, begin, is_owned=is_owned)
        if rests and known is not None:
            managed.settled.set()
        return managed

    async def _hold(self, managed: ManagedServer) -> None:
        """Runs one server's instance, once the previous one of the same server has ended."""
        name = managed.spec.name
        try:
            async with self._running[name]:
                if self._managed.get(name) is not managed:
                    return  # it has been released already
                await self._run(managed)
        finally:
            managed.end()

    async def _run(self, managed: ManagedServer) -> None:
        await managed.run(managed.default)

    async def _hold_temporary(self, managed: ManagedServer, instance: Instance) -> None:
        """Runs an instance beside a server's default one, until it is idle."""
        try:
            if self._managed.get(managed.spec.name) is managed:
                await managed.run(instance)
        finally:
            instance.end()
            managed.remove(instance)

    async def _client(self) -> Connect:
        async with self._loading:
            if self._connect is None:
                # Importing an MCP client takes most of a second: not on the event loop.
                self._connect = await anyio.to_thread.run_sync(self._connector)
            return self._connect

    def statuses(self) -> list[ServerStatus]:
        """Returns every server of the configuration, the unusable ones too, by name."""
        statuses = [
            msgspec.structs.replace(
                status_of(spec, self._catalogue.entry(spec.name), self._managed.get(spec.name)),
                unread=self.config.unread.get(spec.name, ()),
            )
            for spec in self.config.servers
        ]
        for problem in self.config.problems:
            error = encodable(f"{problem.source}: {problem.message}")
            statuses.append(ServerStatus(name=problem.server, state="invalid", error=error))
        return sorted(statuses, key=lambda status: status.name)

    async def resources(self, server: str | None = None) -> dict[str, ServerResources]:
        """Measures the processes of one server over stdio, or of every one; see `measure`.

        The result is by the servers' names. It lacks remote and disabled servers.
        """
        pids = {
            name: managed.pids
            for name, managed in self._managed.items()
            if managed.spec.transport == "stdio" and server in {None, name}
        }
        return await anyio.to_thread.run_sync(measure, pids)

    def why_missing(self, server: str, tool: str) -> str:
        """Returns why the catalogue lacks a tool of a server, or "" if that does not work."""
        if not any(each.name == server and each.works for each in self.statuses()):
            return ""
        spec = next(spec for spec in self.config.servers if spec.name == server)
        held = self.catalogue.held.get(tool_id(server, tool))
        if held is not None:
            return held_message(held)
        for each in self.catalogue.tools.values():
            if each.own is not None and (each.server, each.own.name) == (server, tool):
                return f"the configuration calls it {each.id}"
        if not spec.offers(tool):
            return f"includeTools keeps it out of {server}"
        return f"the server {server} offers no tool of that name"

    def _take(self, managed: ManagedServer, event: Report) -> bool:
        """Puts what an upstream reports into the catalogue, unless its server was replaced.

        Returns whether the server's tools are known. Where it has several instances, one that
        fails says nothing about the others.
        """
        spec = managed.spec
        if self._managed.get(spec.name) is not managed:
            return False
        managed.reported = True
        before = self.catalogue.servers.get(spec.name)
        if self._keeps_entry(managed, event):
            managed.settled.set()
            return True
        entry = ServerEntry(
            name=spec.name, digest=spec.digest, state="failed", since=utc_timestamp()
        )
        if isinstance(event, Ready):
            managed.retry = ""
            reported = msgspec.structs.asdict(event)
            entry = msgspec.structs.replace(entry, state="ready", **reported)
        else:
            managed.retry = utc_timestamp(event.retry_s)
            if event.retrying:
                entry = msgspec.structs.replace(before or entry, state="connecting")
            entry = msgspec.structs.replace(entry, error=event.error)
        if before is None or msgspec.structs.replace(entry, since=before.since) != before:
            self._catalogue.publish_entry(entry)
        managed.settled.set()
        return entry.state == "ready"

    def _keeps_entry(self, managed: ManagedServer, report: Report) -> bool:
        """Whether a report changes nothing in the entry: one of several instances has failed."""
        known = self._find_known(managed.spec)
        is_alone = managed.spec.is_single or isinstance(report, Ready)
        return not is_alone and known is not None and known.state == "ready"


def enabled(config: Config) -> list[ServerSpec]:
    """Returns the servers of a configuration that may be connected to."""
    return [spec for spec in config.servers if not spec.disabled]
