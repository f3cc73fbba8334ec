"""The cache's benchmark runs, in small: kills at random moments, processes at once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT


@pytest.mark.requirement("cache:safe")
def test_the_cache_survives_kills_and_processes_at_once(tmp_path: Path) -> None:
    """cache:safe: 200 kills and more are the benchmark's own default."""
    out = tmp_path / "out.json"
    sizes = ["--tools", "50", "--kills", "6", "--processes", "4", "--documents", "150"]
    command = [sys.executable, "-m", "benchmarks.cache", *sizes, "--json", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_bytes())
    assert found["killed"]["whole"] == 6
    assert found["shared"] == {"processes": 4, "entries": 150, "expected": 150}
