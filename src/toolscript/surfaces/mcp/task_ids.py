"""The ids of tasks that clients get: sealed, so that nothing about a task has to be stored.

An id says which tool was called, for whom, and how the tool's server calls the task (SEP-2663). It
is good after a restart, and in every gateway with the same key.
"""

import secrets

import msgspec

from toolscript.config.secret_key import SecretKey

_PURPOSE = b"mcp-task-id"
_MAX_CHARS = 4096


class Task(msgspec.Struct, frozen=True, array_like=True):
    """The content of a task's id."""

    holder: str
    """Who made the call: see `Grant.holder`."""
    tool: str
    identifier: str
    """The server's id of the task."""
    is_listed: bool
    """Whether the client called the tool by its own name, and so knows its output schema."""


class TaskIds:
    """Seals and reads the ids of tasks.

    Args:
        key: Seals them; None makes a key that ends with the process.
        replica: This process, whose servers know the tasks; empty if it is the only one.
    """

    def __init__(self, key: SecretKey | None = None, replica: str = "") -> None:
        self._key = key or SecretKey(secrets.token_urlsafe(32))
        self._replica = replica

    def seal(self, task: Task) -> str:
        """Returns the id of a task for its client."""
        sealed = self._key.seal_value(task, _PURPOSE)
        return f"{self._replica}.{sealed}" if self._replica else sealed

    def read(self, identifier: str, holder: str) -> Task | None:
        """Returns the task of an id; None if the id is another holder's, forged or damaged."""
        task = self._key.read_value(identifier.rpartition(".")[2], _PURPOSE, Task, _MAX_CHARS)
        return task if task is not None and task.holder == holder else None
