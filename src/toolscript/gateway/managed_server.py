"""One configured server as the gateway runs it, its instances, and its status."""

from collections.abc import Callable

import anyio

from toolscript.gateway.base import Caller
from toolscript.gateway.catalogue import ServerEntry
from toolscript.gateway.fair_queue import FairQueue
from toolscript.gateway.instance import Instance
from toolscript.types import ServerSpec, ServerState, ServerStatus


class ManagedServer:
    """One server as it is configured now. A changed entry makes a new one.

    A server whose entry names the project has an instance per project, and one that is not shared
    an instance per session. The default one serves every other caller, and lists the tools.

    Args:
        spec: The server, as it is configured.
        project: The folder that counts as the project of callers that name none.
        make: Returns a new instance of a server, temporary or not.
        begin: Runs a temporary instance, and calls `remove` once it has ended.
        is_owned: Whether this replica fetches its tools.
    """

    def __init__(
        self,
        spec: ServerSpec,
        project: str,
        make: Callable[[ServerSpec, bool], Instance],
        begin: Callable[[Instance], None],
        *,
        is_owned: bool,
    ) -> None:
        self.spec = spec
        self.is_owned = is_owned
        self.queue = FairQueue(spec.max_concurrent)
        self.settled = anyio.Event()
        """Set once its tools are known, it has failed, or it has been released."""
        self.retry = ""
        """The time of the next attempt: ISO 8601, UTC."""
        self.reported = False
        """Whether it has been connected to, or has failed, in this process."""
        self._make, self._begin, self._project = make, begin, project
        self.default = make(spec.in_project(project), False)  # noqa: FBT003 - see `make`
        self._others: dict[tuple[str, str], Instance] = {}
        """The instances by the digest of the expanded entry, and the session."""
        self._scopes = set[anyio.CancelScope]()
        """They cancel the tasks of its instances."""

    @property
    def instances(self) -> tuple[Instance, ...]:
        """Every instance, the default one first."""
        return self.default, *self._others.values()

    @property
    def is_resting(self) -> bool:
        """Whether none of its instances is started."""
        return all(instance.is_resting for instance in self.instances)

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of the instances' processes that run."""
        return tuple(instance.pid for instance in self.instances if instance.pid is not None)

    def instance_of(self, caller: Caller) -> Instance:
        """Returns the instance that serves a caller; makes it if there is none yet."""
        spec = self.spec.in_project(caller.project or self._project)
        session = "" if spec.is_shared else caller.session_id
        if not session and spec == self.default.spec:
            return self.default
        key = spec.digest, session
        if key not in self._others:
            self._others[key] = self._make(spec, True)  # noqa: FBT003 - see `make`
            self._begin(self._others[key])
        return self._others[key]

    async def run(self, instance: Instance) -> None:
        """Runs one of the instances until it ends, or `release` is called."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                await instance.run()
            finally:
                self._scopes.discard(scope)

    def remove(self, instance: Instance) -> None:
        """Forgets a temporary instance that has ended, so that the next one may start."""
        self._others = {key: each for key, each in self._others.items() if each is not instance}
        instance.removed.set()

    def end_session(self, session: str) -> None:
        """Stops the instances that are a session's alone, once they have no request."""
        for (_, owner), instance in self._others.items():
            if owner == session:
                instance.end_unused()

    def end(self) -> None:
        """Refuses every request from now on."""
        for instance in self.instances:
            instance.end()

    def release(self) -> None:
        """Ends all instances; who waits for the tools goes on."""
        for scope in self._scopes:
            scope.cancel()
        self.end()
        self.settled.set()

    def list_again(self) -> None:
        """Has the server, if it is connected, list its tools again."""
        for instance in self.instances:
            instance.list_again()


def status_of(
    spec: ServerSpec, entry: ServerEntry | None, managed: ManagedServer | None
) -> ServerStatus:
    """Returns the status of one server.

    Args:
        spec: How it is configured.
        entry: Its state.
        managed: How it runs; None if this process does not connect to it.
    """
    if spec.disabled:
        return ServerStatus(name=spec.name, state="disabled")
    if entry is None:
        return ServerStatus(name=spec.name, state="connecting", transport=spec.transport)
    return ServerStatus(
        name=spec.name,
        state=_state_of(entry, managed),
        transport=entry.transport or spec.transport,
        tools=len(entry.tools),
        error=entry.error,
        since=entry.since,
        version=entry.version,
        rejected=(*entry.rejected, *entry.apply(spec.repairs).problems),
        held=len(entry.held),
        snapshot=managed is None or not managed.reported,
        retry=managed.retry if managed else "",
    )


def _state_of(entry: ServerEntry, managed: ManagedServer | None) -> ServerState:
    is_ready = entry.state == "ready"
    if managed is None:
        return "resting" if is_ready else entry.state
    rests = is_ready and managed.is_resting
    # One that was started has to report, also if its tools are known already.
    is_started = is_ready and not rests
    if not (managed.reported if is_started else managed.settled.is_set()):
        return "connecting"
    return "resting" if rests else entry.state
