"""benchmarks.graph: on a small dataset of one's own, and what it refuses."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.graph import next_tool
from benchmarks.graph.__main__ import main
from benchmarks.graph.data import Item
from benchmarks.graph.results import Result, averages, compared

NAMES = ("open", "write", "close", "send")
TOOLS = [{"id": f"s__{name}", "server": "s", "name": name} for name in NAMES]
HABIT = ["s__open", "s__write", "s__close"]


def folder(data: Path, items: Sequence[Mapping[str, Any]] | None = None) -> Path:
    made = data / "mine"
    made.mkdir(parents=True)
    chains = items or [{"context": HABIT[:1], "relevant": HABIT[1:2], "seen_chain": True}]
    (made / "tools.jsonl").write_text("\n".join(map(json.dumps, TOOLS)))
    (made / "next_tool.jsonl").write_text("\n".join(map(json.dumps, chains)))
    (made / "graph.json").write_text(json.dumps({"sequences": [HABIT] * 6}))
    return made


def test_what_comes_next_is_measured_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [
        {"context": HABIT[:1], "relevant": ["s__write"], "seen_chain": True},
        {"context": HABIT[:2], "relevant": ["s__close"], "seen_chain": True},
        {"context": HABIT[1:2], "relevant": ["s__send"], "seen_chain": False, "query": "mail it"},
    ]
    (folder(tmp_path, items) / "queries.jsonl").touch()  # some datasets have tools alone
    written = tmp_path / "out.json"
    tasks = "next-tool,usage"
    assert main(["--data", str(tmp_path), "--tasks", tasks, "--json", str(written)]) == 0
    found = json.loads(written.read_bytes())
    rows = {(row["task"], row["engine"]): row for row in found["results"]}
    assert rows["next-tool", "graph"]["items"] == 3
    assert rows["next-tool", "graph"]["hit1"] == pytest.approx(0.6667)
    assert rows["next-tool", "counting"]["hit1"] == pytest.approx(0.6667)
    assert rows["next-tool", "popularity"]["hit1"] < 0.6667
    assert rows["next-tool-novel", "graph"]["items"] == 1
    assert rows["next-tool-novel", "graph"]["hit1"] == 0
    assert found["meta"]["seed"] == 0
    assert {row["dataset"] for row in found["comparison"]} == {"mine"}
    assert "| mine | graph | 3 |" in capsys.readouterr().out


def test_figures_of_a_ranking_without_the_tools_of_the_context() -> None:
    item = Item(context=("b",), relevant=("c",), seen_chain=False)
    rows = {"a": 0, "b": 1, "c": 2}

    found = next_tool.figures(np.array([0.5, 0.9, 0.4]), item, rows)
    assert found == {"hit1": 0.0, "hit5": 1.0, "mrr": 0.5}
    assert next_tool.figures(np.array([0.1, 0.9, 0.4]), item, rows)["hit1"] == 1.0


def test_averages_and_comparisons_are_over_datasets() -> None:
    results = [
        Result(dataset, "t", engine, tuple({"mrr": value} for value in values))
        for dataset, engine, values in [
            ("a", "one", (1.0, 1.0)),
            ("a", "two", (0.0, 1.0)),
            ("b", "one", (0.0,)),
            ("b", "two", (0.0,)),
        ]
    ]
    assert [row["mrr"] for row in averages(results)] == [0.5, 0.25]
    rows = compared(results, [("t", "mrr", "one", "two")])
    assert [row["difference"] for row in rows] == [0.5, 0.0, 0.25]
