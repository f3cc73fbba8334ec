"""Twenty seconds of `benchmarks.chaos`: upstream:isolation."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.chaos.__main__ import failed_checks

from tests.support import ROOT

SHORT = "0.33"


@pytest.mark.requirement("upstream:isolation")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("more", [[], ["--idle", "2", "--projects"]], ids=["running", "resting"])
def test_the_gateway_lives_on_whatever_its_servers_do(tmp_path: Path, more: list[str]) -> None:
    """How long its event loop stands still is a matter of time, and left to the benchmark."""
    written = tmp_path / "found.json"
    words = ["--minutes", SHORT, "--json", str(written), *more]
    command = [sys.executable, "-m", "benchmarks.chaos", *words]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert written.exists(), done.stderr
    found = json.loads(written.read_text("utf-8"))
    assert set(found["failed"]) <= {"event loop: blocked"}, done.stdout
    assert set(found["deeds"]) == {"kill", "hang", "flood", "change", "restart"}
    # Whether a call fails while its server is away depends on how soon that is back.
    assert found["hit"], "no server that ran was killed or stopped"
    assert found["loop"]["looks"]


CALM: dict[str, Any] = {"processes": 0, "descriptors": 100, "memory_mib": 180.0}
WELL: dict[str, Any] = {
    "asked": {"searches": 2, "calls answered": 2},
    "resting": True,
    "wrong": [],
    "missing": [],
    "left": 0,
    "loop": {"looks": 10, "late": 0, "blocked": 0},
    "calm": [CALM] * 4,
}


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("wrong", ["call without an answer: TimeoutError"]),
        ("asked", {"searches": 0, "calls answered": 0}),
        ("missing", ["s01"]),
        ("left", 1),
        ("loop", {"looks": 10, "late": 1, "blocked": 1}),
        ("calm", [{**CALM, "processes": 1}] * 4),
        ("calm", [{**CALM, "descriptors": number} for number in (100, 103, 106, 109)]),
        ("calm", [{**CALM, "memory_mib": mib} for mib in (180.0, 189.0, 198.0, 207.0)]),
    ],
)
def test_what_is_not_well_is_said(what: str, value: object) -> None:
    assert failed_checks(WELL) == []
    for number in range(4):  # what is there once only has not grown
        once = [{**CALM, "memory_mib": 260.0 if at == number else 180.0} for at in range(4)]
        assert failed_checks({**WELL, "calm": once}) == []
    assert len(failed_checks({**WELL, what: value})) == 1
