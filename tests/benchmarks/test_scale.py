"""A smaller run of `benchmarks.scale`."""

import json
from pathlib import Path

import pytest
from benchmarks.scale.catalogue import QUESTION_SETS
from benchmarks.scale.measure import main

from tests.corpus import ROWS

TOOLS = 600
QUESTIONS = (
    ("commit my changes to git", "git__git_commit"),
    ("what time is it in Tokyo", "time__get_current_time"),
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The small catalogue, and the same two questions in each of the sets that are asked."""
    tools = [
        {"id": f"{server}__{name}", "server": server, "name": name, "description": text}
        for server, rows in ROWS.items()
        for name, (text, *_) in rows.items()
    ]
    queries = [{"query": text, "relevant": [tool]} for text, tool in QUESTIONS]
    for name in ("wild_mcp", *QUESTION_SETS):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "tools.jsonl").write_text("\n".join(map(json.dumps, tools)), "utf-8")
        (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)), "utf-8")
    return tmp_path


def test_each_kind_of_question_is_timed(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written, vectors = data / "found.json", data / "vectors.npy"
    chosen = ["--data", str(data), "--vectors", str(vectors), "--tools", str(TOOLS)]
    chosen += ["--questions", "4", "--repeats", "1", "--json", str(written)]
    assert main(chosen) == 0
    [row] = json.loads(written.read_text("utf-8"))["results"]
    assert row["tools"] == TOOLS
    assert all(each["p50"] > 0 for each in row["searches"].values())
    assert len(row["searches"]) == 6
    assert row["changed_ms"] > 0
    assert "| p50 |" in capsys.readouterr().out
