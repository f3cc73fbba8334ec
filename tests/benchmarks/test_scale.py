"""A small run of the benchmark of large catalogues."""

import json
from pathlib import Path

import pytest
from benchmarks.scale.catalogue import QUESTION_SETS
from benchmarks.scale.measure import main

from tests.corpus import ROWS, SHELL, tools_of

QUERIES = (
    "read a file and write another",
    "commit my changes",
    "what time is it in Tokyo",
    "search the knowledge graph",
)


def dataset(folder: Path) -> Path:
    tools = [
        {"id": tool.id, "server": tool.server, "name": tool.name, "description": tool.description}
        for tool in tools_of(ROWS | SHELL)
    ]
    queries = [{"query": text, "relevant": [tools[0]["id"]]} for text in QUERIES]
    for name in ("wild_mcp", *QUESTION_SETS):
        (folder / name).mkdir()
        for file, rows in (("tools.jsonl", tools), ("queries.jsonl", queries)):
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / name / file).write_text(lines, encoding="utf-8")
    return folder


def test_the_database_finds_what_memory_finds(tmp_path: Path) -> None:
    options = ["--data", str(dataset(tmp_path)), "--vectors", str(tmp_path / "vectors.npy")]
    counts = ["--tools", "270", "--questions", "8", "--repeats", "1"]
    written = tmp_path / "found.json"
    size = ["--buffers", "32MB", "--json", str(written)]
    assert main([*options, *counts, *size, "--engine", "postgres"]) == 0
    [row] = json.loads(written.read_text("utf-8"))["results"]
    assert row["tools"] == 270
    assert len(row["searches"]) == 6
    assert all(found["same"] == 1.0 for found in row["searches"].values())
    assert all(found["p95"] >= found["p50"] > 0 for found in row["searches"].values())
    assert row["visible_ms"] >= row["changed_ms"] > 0


def test_a_folder_without_tools_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--data", str(tmp_path), "--tools", "10"]) == 2
    assert "wild_mcp is no dataset" in capsys.readouterr().err
