"""Says which servers of a gateway run, and for how long."""

from collections.abc import Callable
from dataclasses import dataclass

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

    starts: Callable[[ServerSpec, ServerEntry], bool] = lambda _spec, _known: True
    """Whether a server that the snapshot knows is started at once. Any other rests until a request
    needs it."""
    idle_s: float = 0
    """Seconds without a request after which a server is stopped; 0 for never. A server may have
    its own."""
    max_processes: int = 0
    """The greatest number of servers that run at a time; 0 for any number."""
    only: str | None = None
    """The one server that may be connected to; None for all."""


RUN_ALL = RunPolicy()


def starting(start: str) -> Callable[[ServerSpec, ServerEntry], bool]:
    """Returns a value of `RunPolicy.starts`.

    Args:
        start: ``all`` servers, only the ``needed`` ones, or those that are ``configured`` so.
    """

    def starts(spec: ServerSpec, known: ServerEntry) -> bool:
        if start != "configured":
            return start == "all"
        return known.state != "ready" or spec.start == "eager"

    return starts
