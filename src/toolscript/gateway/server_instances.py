"""The instances of one configured server: one for all callers, or one per project or session."""

from collections.abc import Callable

from toolscript.gateway.base import Caller
from toolscript.gateway.instance import Instance
from toolscript.types import ServerSpec


class ServerInstances:
    """Finds the instance that serves a caller, and makes it if there is none yet.

    A server whose entry names the project has an instance per project, and one that is not shared
    an instance per session. The default one serves every other caller, and lists the tools.

    Args:
        spec: The server, as it is configured.
        project: The folder that counts as the project of callers that name none.
        make: Returns a new instance of a server, temporary or not.
        begin: Runs a temporary instance, and calls `remove` once it has ended.
    """

    def __init__(
        self,
        spec: ServerSpec,
        project: str,
        make: Callable[[ServerSpec, bool], Instance],
        begin: Callable[[Instance], None],
    ) -> None:
        self.spec = spec
        self._make = make
        self._begin = begin
        self._project = project
        self.default = make(spec.in_project(project), False)  # noqa: FBT003 - see `make`
        self._others: dict[tuple[str, str], Instance] = {}
        """The instances by the digest of the expanded entry, and the session."""

    @property
    def all(self) -> tuple[Instance, ...]:
        """Every instance, the default one first."""
        return self.default, *self._others.values()

    @property
    def is_resting(self) -> bool:
        """Whether none is started."""
        return all(instance.is_resting for instance in self.all)

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of the instances' processes that run."""
        return tuple(instance.pid for instance in self.all if instance.pid is not None)

    def of(self, caller: Caller) -> Instance:
        """Returns the instance that serves a caller."""
        spec = self.spec.in_project(caller.project or self._project)
        session = "" if spec.is_shared else caller.session_id
        if not session and spec == self.default.spec:
            return self.default
        key = spec.digest, session
        if key not in self._others:
            self._others[key] = self._make(spec, True)  # noqa: FBT003 - see `make`
            self._begin(self._others[key])
        return self._others[key]

    def end_session(self, session: str) -> None:
        """Stops the instances that are a session's alone, once they have no request."""
        for (_, owner), instance in self._others.items():
            if owner == session:
                instance.end_unused()

    def remove(self, instance: Instance) -> None:
        """Forgets a temporary instance that has ended, so that the next one may start."""
        self._others = {key: each for key, each in self._others.items() if each is not instance}
        instance.removed.set()

    def end(self) -> None:
        """Refuses every request from now on."""
        for instance in self.all:
            instance.end()
