"""Memory: what a gateway began with is no work for the garbage collector, nor what is made."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

GATEWAY = """
import gc, os, signal, sys, threading, time
from toolscript.config.settings import load_settings
from toolscript.surfaces.http.gateway_process import serve
from toolscript.surfaces.web.screens import page_routes

def look():
    seen = [0]
    while len(seen) < 3:  # when it starts, and when it is ready
        if gc.get_freeze_count() > seen[-1] + 1_000:  # a few that were set aside may be freed
            seen.append(gc.get_freeze_count())
        time.sleep(0.001)
    print(*seen, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=look, daemon=True).start()
serve(load_settings({"port": "0", "model": "none"}, os.environ), page_routes)
"""


def test_the_collector_does_not_look_through_what_a_gateway_begins_with(tmp_path: Path) -> None:
    """What was imported is set aside when it starts, and what was indexed when it is ready."""
    config = tmp_path / "config.json"
    config.write_text('{"mcpServers": {}}', "utf-8")
    own = {"TOOLSCRIPT_DATA_DIR": str(tmp_path), "TOOLSCRIPT_CONFIG": str(config)}
    ran = subprocess.run(
        [sys.executable, "-c", GATEWAY],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    nothing, started, ready = map(int, ran.stdout.split())
    assert nothing == 0
    assert started > 10_000
    assert ready > started


@pytest.mark.skipif(sys.platform != "linux", reason="the allocator is another")
def test_freed_memory_is_handed_back() -> None:
    """Large blocks at once, and the others after a while."""
    program = """
import time
from pathlib import Path
from toolscript.surfaces.server import process_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20

process_memory.keep_heap_small(period_s=3.0)
sizes = [resident()]
large = b"x" * (200 << 20)
del large
sizes.append(resident())
small = [b"x" * (1 << 16) for _ in range(3200)]
end = b"x" * (1 << 16)  # what lies behind keeps the heap as long as it is
del small
sizes.append(resident())
ends = time.monotonic() + 30
while resident() > sizes[0] + 20 and time.monotonic() < ends:
    time.sleep(0.1)
sizes.append(resident())
print(*sizes)
"""
    output = subprocess.check_output([sys.executable, "-c", program], text=True)
    begun, large, freed, released = map(int, output.split())
    assert large - begun < 20
    assert freed - begun > 150
    assert released - begun < 20
