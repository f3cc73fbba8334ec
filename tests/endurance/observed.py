"""A view of a gateway's process and of its event loop, while something happens to it."""

import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.gateways import Started

BLOCKED_S = 0.1
"""The event loop's own thread does not compute for longer than that at a time."""
MIB = 2**20
_WORKED = "toolscript_event_loop_lag_cpu_seconds_bucket"


@dataclass(eq=False)
class Observed:
    """A gateway while it is attacked."""

    before_mib: float
    peak_mib: float = 0.0
    answers_s: list[float] = field(default_factory=list[float])
    """The time that each answer of ``/health`` took."""
    unanswered: int = 0
    blocked: int = 0
    """How often the loop's own work made it late by more than `BLOCKED_S`."""

    @property
    def grown_mib(self) -> float:
        """The memory at its peak, less the memory before."""
        return max(0.0, self.peak_mib - self.before_mib)

    def __str__(self) -> str:
        """The figures, for the message of a failure."""
        worst = max(self.answers_s, default=0.0) * 1000
        return (
            f"RSS {self.before_mib:.0f} → {self.peak_mib:.0f} MiB at most; /health {worst:.0f} ms "
            f"at worst of {len(self.answers_s)}, {self.unanswered} unanswered; "
            f"loop blocked {self.blocked} times"
        )


@contextmanager
def observed(gateway: Started) -> Generator[Observed]:
    """Looks at memory, and at the answers of ``/health``, while the block runs."""
    blocked = blocked_times(gateway)
    seen, ended = Observed(resident_mib(gateway.pid)), threading.Event()

    def look() -> None:
        while not ended.wait(0.05):
            with suppress(OSError):
                seen.peak_mib = max(seen.peak_mib, resident_mib(gateway.pid))
            begun = time.perf_counter()
            if gateway.ask("GET", "/health")[0] == 200:
                seen.answers_s.append(time.perf_counter() - begun)
            else:
                seen.unanswered += 1

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()
        seen.blocked = blocked_times(gateway) - blocked


def blocked_times(gateway: Started) -> int:
    """Returns how often the loop's own work has made it late so far."""
    status, text, _ = gateway.ask("GET", "/metrics")
    if status != 200:
        return 0
    counts = {
        sample.labels["le"]: int(sample.value)
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        if sample.name == _WORKED
    }
    return counts["+Inf"] - counts[str(BLOCKED_S)]


def resident_mib(pid: int) -> float:
    """Returns the memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


def descriptors(pid: int) -> int:
    """Returns how many descriptors a process has open."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def living(folder: Path) -> list[int]:
    """Returns the processes that have this folder among their arguments."""
    pids: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(folder).encode() in path.read_bytes():
                pids.append(int(path.parent.name))
    return pids
