"""Declares the interfaces of stores that processes share: named values, and the log of calls."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from toolscript.storage.activity_log import ActivityPage, ActivityQuery, RecordedCall


class LostRecordError(FileNotFoundError):
    """A value that was written once is gone."""


class Records(Protocol):
    """Small values by name. Any thread and any process may call; methods block for a moment.

    Every method raises `OSError` if the storage cannot be used now, and changes nothing then.
    """

    def read(self, name: str) -> bytes | None:
        """Returns a value; None for a name that was never written, or that was deleted.

        Raises `LostRecordError` if the value was written, and was not deleted by `delete`.
        """
        ...

    def was_written(self, name: str) -> bool:
        """Whether a value was written, and not deleted since; true if that cannot be told."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Replaces a value: it outlives the process, and the machine's end, when this returns."""
        ...

    def delete(self, name: str) -> bool:
        """Deletes a value, as if it was never written; returns whether there was one."""
        ...

    def location(self, name: str) -> str:
        """Returns the place of a value, for messages."""
        ...

    def names(self) -> list[str]:
        """Returns the names that have a value, sorted."""
        ...

    def stamp(self, name: str) -> str:
        """Returns a text that changes whenever the value does. Quick."""
        ...

    def locked(self, name: str, timeout_s: float = -1) -> AbstractContextManager[None]:
        """Keeps every other caller of `locked` out of the block, for this name.

        In the block the newest value is read, and what is written counts from its end at the
        latest. Waits for ``timeout_s`` seconds, or for ever if that is negative; raises
        `TimeoutError` after that.
        """
        ...


class ActivityStorage(Protocol):
    """The newest calls of tools. Any thread and any process may call; methods block for a moment.

    Every method raises `OSError` if the storage cannot be used now.
    """

    @property
    def location(self) -> str:
        """The place of the calls, for messages."""
        ...

    def append(self, calls: "Sequence[RecordedCall]") -> None:
        """Adds calls, the oldest first, all or none; each gets an id above those before it."""
        ...

    def read(self, query: "ActivityQuery") -> "ActivityPage":
        """Returns the calls that a query asks for."""
        ...
