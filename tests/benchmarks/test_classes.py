"""`benchmarks.classes` on a few tools: what it counts."""

import json
from pathlib import Path

import pytest

from benchmarks import classes

READS, WRITES, DESTROYS = (
    {"readOnlyHint": True},
    {"destructiveHint": False},
    {"readOnlyHint": False},
)
ROWS = [
    {"id": "a", "server": "s", "name": "list_rows", "annotations": READS},
    {"id": "b", "server": "s", "name": "get_rows", "annotations": WRITES},
    {"id": "c", "server": "s", "name": "find_rows", "annotations": DESTROYS},
    {"id": "d", "server": "s", "name": "ponder", "annotations": READS},
    {"id": "e", "server": "t", "name": "add_row", "annotations": {"title": "Add"}},
]


def test_guesses_are_counted_beside_what_servers_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "few").mkdir()
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / "few" / "tools.jsonl").write_text(lines, "utf-8")
    written = tmp_path / "figures.json"
    arguments = ["--data", str(tmp_path), "--dataset", "few", "--json", str(written)]
    assert classes.main([*arguments, "--examples", "1"]) == 0
    shown = capsys.readouterr().out
    assert "| read | 1 | 1 | 1 |" in shown
    assert "4 tools of 1 servers" in shown
    assert "- s__find_rows: {'readOnlyHint': False}" in shown
    assert json.loads(written.read_text())["figures"] == {
        "guessed reads that the server calls destructive": "1 of 3 (33.3%)",
        "guessed reads that the server calls read-only": "1 of 3 (33.3%)",
        "reads that are guessed": "1 of 2 (50.0%)",
        "all tools, guessed read": "3 of 5 (60.0%)",
        "all tools, guessed write": "1 of 5 (20.0%)",
        "all tools, guessed destructive": "1 of 5 (20.0%)",
    }
