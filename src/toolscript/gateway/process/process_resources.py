"""Measures the memory and processor time of servers, with all the processes that they started."""

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from toolscript.types import ServerResources

if TYPE_CHECKING:
    from psutil import Process


def measure(servers: Mapping[str, Sequence[int]]) -> dict[str, ServerResources]:
    """Returns the usage of each server's processes, by the servers' names.

    It reads the system's table of processes once, for all servers, and so blocks for some
    milliseconds: call it in a thread. A process that ends meanwhile is left out, and so is one
    that may not be looked at, or whose parent has ended and left it to the system. On Windows,
    which tells no ids, the result is empty.

    The memory is the resident sets' sum, as ``ps`` and ``top`` show them. The processor time
    includes that of descendants which have ended and were waited for, if the system tells
    it (on Linux).

    Args:
        servers: By each server's name, the ids of the processes of its instances.
    """
    if sys.platform == "win32":
        return {}
    if not any(servers.values()):
        return dict.fromkeys(servers, _NOTHING)
    table = _ProcessTable()
    return {name: _sum_up(table, pids) for name, pids in servers.items()}


_NOTHING = ServerResources(instances=0, processes=0, memory_bytes=0, cpu_s=0.0)


class _Usage(NamedTuple):
    """The usage of one process."""

    lives: bool
    """False for one that has ended, but that its parent has not waited for yet."""
    memory_bytes: int
    cpu_s: float


def _sum_up(table: "_ProcessTable", pids: Sequence[int]) -> ServerResources:
    ids = dict.fromkeys(each for pid in pids for each in table.tree(pid))
    usages = {pid: usage for pid in ids if (usage := table.usage(pid))}
    lives, memory, times = zip(*usages.values(), strict=True) if usages else ((), (), ())
    return ServerResources(
        instances=sum(pid in usages and usages[pid].lives for pid in pids),
        processes=sum(lives),
        memory_bytes=sum(memory),
        cpu_s=sum(times),
    )


class _ProcessTable:
    """The processes of the system as they were when it was made."""

    def __init__(self) -> None:
        import psutil  # noqa: PLC0415 - only where resources are asked for

        self._error = psutil.Error
        self._zombie = psutil.STATUS_ZOMBIE
        self._processes: dict[int, Process] = {}
        self._children: defaultdict[int, list[int]] = defaultdict(list)
        for process in psutil.process_iter(["ppid"]):
            self._processes[process.pid] = process
            self._children[process.info["ppid"]].append(process.pid)

    def tree(self, pid: int) -> Iterator[int]:
        """Yields the id of a process, and then those of its descendants."""
        waiting = [pid]
        while waiting:
            pid = waiting.pop()
            yield pid
            waiting += self._children[pid]

    def usage(self, pid: int) -> _Usage | None:
        """Returns the usage of a process; None if it has vanished or may not be looked at."""
        process = self._processes.get(pid)
        if process is None:
            return None
        try:
            with process.oneshot():
                times, memory = process.cpu_times(), process.memory_info().rss
                lives = process.status() != self._zombie
        except self._error:
            return None
        ended_s = times.children_user + times.children_system
        return _Usage(lives, memory, times.user + times.system + ended_s)
