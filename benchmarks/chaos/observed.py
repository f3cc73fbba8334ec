"""What is seen of a gateway's process from outside, and of its event loop by itself."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.chaos.servers import living
from benchmarks.gateways import Started

BLOCKED_S = 0.1
_WORKS = {"ready", "resting"}
_LATE = "toolscript_event_loop_lag_seconds_bucket"
_WORKED = "toolscript_event_loop_lag_cpu_seconds_bucket"


@dataclass(frozen=True)
class Figures:
    """A process when nothing happens."""

    processes: int
    descriptors: int
    memory_mib: float

    def as_json(self) -> dict[str, Any]:
        """For the report."""
        return asdict(self)


async def settled(http: httpx2.AsyncClient, number: int, patience_s: float) -> list[str]:
    """Wait until every server works; the names of those that do not in time."""
    missing: list[str] = []
    with anyio.move_on_after(patience_s):
        while True:
            listed = (await http.get("/servers")).json()["servers"]
            missing = [s["name"] for s in listed if s["state"] not in _WORKS or s["snapshot"]]
            if len(listed) == number and not missing:
                return []
            await anyio.sleep(0.2)
    return missing or ["some are not configured"]


async def figures(gateway: Started, folder: Path) -> Figures:
    """Of the gateway and its servers; what is closed a moment later is waited for."""
    await anyio.sleep(2)
    process = Path(f"/proc/{gateway.pid}")
    pages = int((process / "statm").read_text("utf-8").split()[1])
    return Figures(
        processes=len(living(folder)),
        descriptors=sum(1 for _ in (process / "fd").iterdir()),
        memory_mib=round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1),
    )


def lag(text: str) -> dict[str, int]:
    """How often the loop was looked at, was late, and had itself to blame; from ``/metrics``."""
    seen = {
        (sample.name, sample.labels.get("le")): int(sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    bound = str(BLOCKED_S)
    return {
        "looks": seen[_LATE, "+Inf"],
        "late": seen[_LATE, "+Inf"] - seen[_LATE, bound],
        "blocked": seen[_WORKED, "+Inf"] - seen[_WORKED, bound],
    }
