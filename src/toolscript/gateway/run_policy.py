"""Says which servers of a gateway run, and for how long."""

from dataclasses import dataclass
from typing import Literal

from toolscript.gateway.catalogue import ServerEntry
from toolscript.types import ServerSpec


@dataclass(frozen=True, slots=True)
class Intervals:
    """How often a server that is connected is asked for something, in seconds."""

    ping_s: float = 15.0
    """Between two checks that it still answers."""
    poll_s: float = 60.0
    """At least between two listings of its tools, if it announces no changes."""


@dataclass(frozen=True, slots=True)
class RunPolicy:
    """Which servers run, and for how long."""

    start: Literal["all", "configured", "needed"] = "all"
    """Which of the servers that the snapshot knows are started at once. Any other rests until a
    request needs it."""
    idle_s: float = 0
    """Seconds without a request after which a server is stopped; 0 for never. A server may have
    its own."""
    max_processes: int = 0
    """The greatest number of servers that run at a time; 0 for any number."""
    only: str | None = None
    """The one server that may be connected to; None for all."""

    def starts(self, spec: ServerSpec, known: ServerEntry) -> bool:
        """Whether a server of which the snapshot has an entry is started at once."""
        if self.start != "configured":
            return self.start == "all"
        return known.state != "ready" or spec.start == "eager"


RUN_ALL = RunPolicy()
