"""One configured server as the gateway runs it, and its status."""

from dataclasses import dataclass, field

import anyio

from toolscript.gateway.catalogue import ServerEntry
from toolscript.gateway.fair_queue import FairQueue
from toolscript.gateway.instance import Instance
from toolscript.gateway.server_instances import ServerInstances
from toolscript.types import ServerSpec, ServerState, ServerStatus


@dataclass(eq=False)
class ManagedServer:
    """One server as it is configured now. A changed entry makes a new one."""

    spec: ServerSpec
    instances: ServerInstances
    queue: FairQueue
    is_owned: bool
    """Whether this replica fetches its tools."""
    scopes: set[anyio.CancelScope] = field(default_factory=set[anyio.CancelScope])
    """They cancel the tasks of its instances."""
    settled: anyio.Event = field(default_factory=anyio.Event)
    """Set once its tools are known, it has failed, or it has been released."""
    retry: str = ""
    """The time of the next attempt: ISO 8601, UTC."""
    reported: bool = False
    """Whether it has been connected to, or has failed, in this process."""

    async def run(self, instance: Instance) -> None:
        """Runs one of the instances until it ends, or `release` is called."""
        with anyio.CancelScope() as scope:
            self.scopes.add(scope)
            try:
                await instance.run()
            finally:
                self.scopes.discard(scope)

    def release(self) -> None:
        """Ends all instances; who waits for the tools goes on."""
        for scope in self.scopes:
            scope.cancel()
        self.instances.end()
        self.settled.set()

    def list_again(self) -> None:
        """Has the server, if it is connected, list its tools again."""
        for instance in self.instances.all:
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
    rests = is_ready and managed.instances.is_resting
    # One that was started has to report, also if its tools are known already.
    is_started = is_ready and not rests
    if not (managed.reported if is_started else managed.settled.is_set()):
        return "connecting"
    return "resting" if rests else entry.state
