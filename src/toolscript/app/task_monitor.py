"""Monitors background tasks: logs one that raises, and reports that the process has failed.

A fault of one file, one server or one call is contained there. A task that
raises in spite of that is a fault of ours, and the process cannot do its work any more: it is
logged with its traceback, `TaskMonitor.failure` says so from then on, and the process ends.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import anyio

from toolscript.errors import TaskDiedError, innermost

log = logging.getLogger(__name__)
RUNNING, ENDED, DIED = "running", "ended", "died"
_T = TypeVar("_T")


class TaskMonitor:
    """Knows the background tasks of one application, and which of them has died."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}
        self._died = anyio.Event()
        self.failure: TaskDiedError | None = None
        """The first task's death; None as long as every task is well."""

    @property
    def states(self) -> Mapping[str, str]:
        """Each task's state by its name: ``running``, ``ended`` or ``died``."""
        return self._states

    @property
    def is_busy(self) -> bool:
        """Whether any task runs."""
        return RUNNING in self._states.values()

    async def run(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Does a task's work; raises its error as a `TaskDiedError`."""
        self._states[name] = RUNNING
        try:
            await work()
        except (anyio.get_cancelled_exc_class(), KeyboardInterrupt, SystemExit):
            self._states[name] = ENDED
            raise
        except BaseException as error:  # a library in Rust panics with no Exception
            self._note(name, error)
            raise TaskDiedError(str(self.failure)) from error
        self._states[name] = ENDED

    async def while_healthy(self, work: Awaitable[_T]) -> _T:
        """Returns the result of ``work``; raises `TaskDiedError` once a task has died."""
        return await run_unless(self._died.wait, work, lambda: self.failure or TaskDiedError())

    def check(self) -> None:
        """Raise `failure`, if there is one."""
        if self.failure is not None:
            raise self.failure

    def _note(self, name: str, error: BaseException) -> None:
        self._states[name] = DIED
        cause = innermost(error)
        kind = type(cause).__name__
        log.error("the background task %s died: %s: %s", name, kind, cause, exc_info=error)
        if self.failure is None:
            self.failure = TaskDiedError(
                f"the background task {name} died ({kind}), and the process with it; "
                "its log says why: please report it"
            )
        self._died.set()


async def run_unless(
    stop: Callable[[], Awaitable[object]], work: Awaitable[_T], error: Callable[[], Exception]
) -> _T:
    """Returns the result of ``work``; cancels it and raises ``error()`` if ``stop`` returns first.

    Raises the errors of ``work``, without the wrapping of a task group.
    """
    results: list[_T] = []
    problem: Exception | None = None

    async def cancel_on_stop() -> None:
        await stop()
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancel_on_stop)
        try:
            results.append(await work)
        except Exception as raised:  # noqa: BLE001 - raised again below
            problem = raised
        tasks.cancel_scope.cancel()
    if problem is not None:
        raise problem
    if not results:
        raise error()
    return results[0]
