"""Declares the stores of an application, and the door of a script.

The stores are files of one machine, or a database that several share.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from toolscript.embedding.base import VectorCache
from toolscript.gateway.base import Replication
from toolscript.graph.base import GraphStorage
from toolscript.storage.base import ActivityStorage, Records


class Stores(Protocol):
    """All stores of one configuration that may be shared. They connect to nothing by themselves.

    Every method raises `DatabaseUnavailableError` if a shared database cannot be used now.
    """

    @property
    def graph(self) -> GraphStorage:
        """Keeps the learned graph and the usage of tools."""
        ...

    @property
    def activity(self) -> ActivityStorage:
        """Keeps the log of calls."""
        ...

    @property
    def replication(self) -> Replication | None:
        """The other replicas of this gateway; None if it shares its stores with none."""
        ...

    def records(self, store: str) -> Records:
        """Returns the values of one store: tokens, pins, answers or logins."""
        ...

    def vectors(self, servers: str, *, is_fallback: bool) -> VectorCache:
        """Returns the cache of the tools' vectors.

        Args:
            servers: The digest of the servers whose tools they are.
            is_fallback: Whether a model computes them that stands in for another.
        """
        ...

    def join(self, url: str) -> None:
        """Makes this process one of the replicas that share the stores.

        The others reach it at ``url``. Does nothing if no others share them.
        """
        ...

    def close(self) -> None:
        """Releases everything that this process owns or is connected to."""
        ...


class ScriptDoor(NamedTuple):
    """Fulfils the requests of a script, as its caller."""

    holder: str
    """Whose it is."""
    call: Callable[[str, dict[str, Any]], Awaitable[tuple[str, bool]]]
    """Calls the tool of an id; returns its answer, and whether it may be JSON."""
    search: Callable[[str, int], Awaitable[str]]
    """Returns the tools that a search finds, as JSON."""
    result: Callable[[str, str], Awaitable[str]]
    """Returns a stored result, by its handle, or the value of a query in it, as JSON."""


class ScriptOutcome(NamedTuple):
    """The end of a script."""

    texts: list[str]
    """The error that has ended it, if one has; its output; its value."""
    failed: bool = False
