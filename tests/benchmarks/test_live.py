"""`benchmarks.live` and `benchmarks.start` on few servers: what was found, never how soon."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT


def measured(tmp_path: Path, name: str, *options: str) -> dict[str, Any]:
    written = tmp_path / "found.json"
    command = [sys.executable, "-m", f"benchmarks.{name}", *options, "--json", str(written)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(written.read_text("utf-8"))


@pytest.mark.requirement("upstream:live")
def test_each_change_is_found_and_costs_one_embedding(tmp_path: Path) -> None:
    """upstream:live"""
    found = measured(tmp_path, "live", "--tools", "20", "--repetitions", "2")["changes"]
    assert len(found) == 3
    assert {each["embedded"] for each in found.values()} == {1.0}


@pytest.mark.requirement("catalogue:snapshot")
def test_with_dead_and_hanging_servers_the_snapshot_answers(tmp_path: Path) -> None:
    """catalogue:snapshot, upstream:isolation: the tool that is asked for is of one that hangs."""
    found = measured(tmp_path, "start", "--servers", "6", "--dead", "3", "--hanging", "1")
    assert found["again"]["it finds"] == "s003__copy_3"
    assert found["again"]["the others are live"]
