"""Declares types for the parts of asyncpg, an optional dependency, that toolscript uses."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, Protocol, TypeAlias, TypeVar

T = TypeVar("T")


class Connection(Protocol):
    """A connection in a transaction, as a unit of work gets it.

    A statement names its parameters ``$1``, ``$2`` and so on.
    """

    def terminate(self) -> None:
        """Ends the connection without a word to the server."""
        ...

    async def execute(self, query: str, *args: Any) -> str:
        """Runs a statement, or several without parameters; returns what was done."""
        ...

    async def executemany(self, command: str, args: Iterable[Sequence[Any]]) -> None:
        """Runs a statement once for each sequence of parameters."""
        ...

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        """Returns the rows of a query; a row is read by place or by name."""
        ...

    async def fetchrow(self, query: str, *args: Any) -> Any:
        """Returns the first row of a query; None without one."""
        ...

    async def fetchval(self, query: str, *args: Any) -> Any:
        """Returns the first column of the first row; None without one."""
        ...


Work: TypeAlias = Callable[[Connection], Awaitable[T]]
"""A unit of work: what it does is committed together, or not at all."""


def driver() -> Any:
    """Returns the module ``asyncpg``; raises `ImportError` if the extra is not installed."""
    return import_module("asyncpg")
