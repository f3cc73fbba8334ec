"""How late the event loop of a process that does nothing is: what the machine adds to any lag.

Run as a program beside the gateway: when its input ends, it prints how often
that loop was looked at, and how often it was late.
"""

import json
import sys

import anyio
import anyio.to_thread

from benchmarks.chaos.observed import BLOCKED_S
from toolscript.surfaces.server.metrics import EventLoopLag


async def main() -> None:
    """Watch until the end of the input."""
    lag = EventLoopLag()
    await anyio.to_thread.run_sync(sys.stdin.read)
    [family] = lag.lag.collect()
    counts = {sample.labels["le"]: sample.value for sample in family.samples if sample.labels}
    late = counts["+Inf"] - counts[str(BLOCKED_S)]
    print(json.dumps({"looks": counts["+Inf"], "late": late}))


if __name__ == "__main__":
    anyio.run(main)
