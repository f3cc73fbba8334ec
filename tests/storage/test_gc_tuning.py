"""Memory: what a gateway began with is no work for the garbage collector, nor what is made."""

import gc
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from toolscript.storage.gc_tuning import without_collecting

GATEWAY = """
import gc, os, signal, sys, threading, time
from toolscript.config.settings import load_settings
from toolscript.surfaces.http.gateway_process import serve

def look():
    seen = [0]
    while len(seen) < 3:  # when it starts, and when it is ready
        if gc.get_freeze_count() > seen[-1] + 1_000:  # a few that were set aside may be freed
            seen.append(gc.get_freeze_count())
        time.sleep(0.001)
    print(*seen, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=look, daemon=True).start()
serve(load_settings({"port": "0", "model": "none"}, os.environ))
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


def test_the_collector_is_off_while_anybody_wants_it_off_and_then_on_again() -> None:
    """Whichever thread comes first, or goes last."""
    assert gc.isenabled()
    came, went = threading.Event(), threading.Event()

    def other() -> None:
        with without_collecting():
            came.set()
            assert went.wait(60)
            assert not gc.isenabled()

    with ThreadPoolExecutor() as pool:
        with without_collecting():
            assert not gc.isenabled()
            there = pool.submit(other)
            assert came.wait(60)
        assert not gc.isenabled()
        went.set()
        there.result()
    assert gc.isenabled()
