import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.quality import compare, datasets, peers
from benchmarks.quality.__main__ import ENGINES, main
from benchmarks.quality.adapters import PEERS
from benchmarks.quality.datasets import DataError, Query, Tool
from benchmarks.quality.measure import measure
from benchmarks.quality.own import OWN
from benchmarks.quality.peers import Peer, PeerError
from benchmarks.quality.timed import Timed

from tests.docs.pages import DOCS, ROOT
from toolscript.retrieval import quality_metrics as metrics

TOOLS: tuple[dict[str, Any], ...] = (
    {"id": "mail__send", "server": "mail", "name": "send", "description": "Send an e-mail."},
    {"id": "mail__list", "server": "mail", "name": "list", "description": "List the inbox."},
    {"id": "files__read", "server": "files", "name": "read_file", "description": "Read a file."},
    {"id": "files__write", "server": "files", "name": "write_file", "input_schema": None},
    {"id": "w", "server": "weather", "name": "forecast", "description": "The weather tomorrow."},
    {"id": "w2", "server": "weather", "name": "forecast", "description": "The weather on Mars."},
)
QUERIES: tuple[dict[str, Any], ...] = (
    {"query": "send an e-mail to Ana", "relevant": ["mail__send"], "split": "test"},
    {"query": "read this file and write another", "relevant": ["files__read", "files__write"]},
    {"query": "weather forecast", "relevant": ["w"], "id": "3", "context": []},
)
Rows = Sequence[Mapping[str, Any]]


def _folder(data: Path, name: str = "tiny", tools: Rows = TOOLS, queries: Rows = QUERIES) -> Path:
    folder = data / name
    folder.mkdir(parents=True)
    for file, rows in (("tools.jsonl", tools), ("queries.jsonl", queries)):
        lines = (json.dumps(row) for row in rows)
        (folder / file).write_text("\n".join(lines) + "\n", "utf-8")
    return folder


def _queries(test: int, train: int) -> list[Query]:
    splits = ["test"] * test + ["train"] * train
    return [Query(f"q{n}", ("a",), split) for n, split in enumerate(splits)]


class TestMetrics:
    def test_one_relevant_tool_at_rank_three(self) -> None:
        assert metrics.score(["x", "y", "a", "z"], ["a"]) == {
            "r1": 0.0,
            "r5": 1.0,
            "r10": 1.0,
            "ndcg10": pytest.approx(0.5),  # 1/log2(4), of 1
            "mrr": pytest.approx(1 / 3),
            "all10": 1.0,
        }

    def test_two_of_three_relevant_tools(self) -> None:
        found = metrics.score(["a", "x", "x2", "x3", "x4", "b"], ["a", "b", "c"])
        best = 1 + 1 / math.log2(3) + 1 / 2
        assert found == {
            "r1": pytest.approx(1 / 3),
            "r5": pytest.approx(1 / 3),
            "r10": pytest.approx(2 / 3),
            "ndcg10": pytest.approx((1 + 1 / math.log2(7)) / best),
            "mrr": 1.0,
            "all10": 0.0,
        }

    def test_more_relevant_tools_than_results(self) -> None:
        wanted = [str(n) for n in range(20)]
        found = metrics.score(wanted[:10], wanted)
        assert found["ndcg10"] == pytest.approx(1.0)
        assert (found["r10"], found["all10"]) == (0.5, 0.0)

    def test_nothing_found(self) -> None:
        assert set(metrics.score([], ["a"]).values()) == {0.0}

    def test_what_comes_after_ten_or_twice_does_not_count(self) -> None:
        others = [f"x{n}" for n in range(10)]
        assert metrics.score([*others, "a"], ["a"])["mrr"] == 0
        assert metrics.score(["x", "x", "a"], ["a"])["mrr"] == 0.5


class TestSplit:
    def test_the_test_half_where_it_is_large_enough(self) -> None:
        assert {q.split for q in datasets.select(_queries(200, 300))} == {"test"}
        assert len(datasets.select(_queries(200, 300))) == 200

    def test_all_where_it_is_not(self) -> None:
        assert len(datasets.select(_queries(199, 300))) == 499

    def test_at_most_a_thousand_and_always_the_same(self) -> None:
        many = _queries(1500, 0)
        drawn = datasets.select(many)
        assert len({q.query for q in drawn}) == 1000
        assert drawn == datasets.select(many)
        assert drawn != tuple(many[:1000])


class TestCompare:
    def test_always_better_by_the_same(self) -> None:
        (found,) = compare.compare({"d": [0.25] * 40})
        assert (found.difference, found.low, found.high) == (0.25, 0.25, 0.25)
        assert found.p == pytest.approx(2 / 10_001)

    def test_no_difference(self) -> None:
        (found,) = compare.compare({"d": [0.0] * 10})
        assert (found.difference, found.p) == (0.0, 1.0)

    def test_the_interval_is_that_of_the_mean(self) -> None:
        values = np.random.default_rng(1).normal(0.1, 0.5, size=400)
        (found,) = compare.compare({"d": values.tolist()})
        error = float(values.std()) / math.sqrt(values.size)
        assert found.difference == pytest.approx(float(values.mean()))
        assert found.low == pytest.approx(found.difference - 1.96 * error, abs=0.1 * error)
        assert found.high == pytest.approx(found.difference + 1.96 * error, abs=0.1 * error)
        normal = math.erfc(found.difference / error / math.sqrt(2))
        assert found.p == pytest.approx(normal, rel=0.3, abs=0.001)

    def test_worse_is_as_significant_as_better(self) -> None:
        values = [0.1, 0.3, -0.2, 0.4, 0.0, 0.2]
        (better,) = compare.compare({"d": values})
        (worse,) = compare.compare({"d": [-value for value in values]})
        assert better.p == worse.p
        assert (worse.low, worse.high) == pytest.approx((-better.high, -better.low))

    def test_the_macro_average_weighs_datasets_alike(self) -> None:
        found = compare.compare({"small": [0.4] * 3, "large": [-0.2] * 300})
        assert [each.dataset for each in found] == ["small", "large", compare.MACRO]
        assert found[-1].difference == pytest.approx(0.1)


class TestRun:
    @pytest.fixture(scope="class")
    @classmethod
    def data(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        data = tmp_path_factory.mktemp("data")
        _folder(data, "first")
        _folder(data, "second", queries=QUERIES[:2])
        _folder(data, "distractors", queries=())
        return data

    @pytest.fixture(scope="class")
    @classmethod
    def written(cls, data: Path) -> dict[str, Any]:
        file = data.parent / "figures.json"
        assert main(["--data", str(data), "--json", str(file)]) == 0
        return json.loads(file.read_text("utf-8"))

    def test_every_dataset_with_queries_and_every_engine_of_ours(
        self, written: dict[str, Any]
    ) -> None:
        rows = written["results"]
        expected = [(dataset, engine) for dataset in ("first", "second") for engine in OWN]
        assert [(row["dataset"], row["engine"]) for row in rows] == expected

    def test_the_shape_of_a_row(self, written: dict[str, Any]) -> None:
        for row in written["results"]:
            names = "dataset engine queries r1 r5 r10 ndcg10 mrr all10 p50_ms p95_ms index_s"
            assert list(row) == names.split()
            assert row["queries"] == {"first": 3, "second": 2}[row["dataset"]]
            assert all(0 <= row[name] <= 1 for name in metrics.LABELS)
            assert 0 < row["p50_ms"] <= row["p95_ms"]

    def test_what_is_said_about_the_run(self, written: dict[str, Any]) -> None:
        meta = written["meta"]
        assert meta["datasets"] == {"first": 6, "second": 6}
        assert (meta["seed"], meta["sample"], meta["failed"]) == (0, None, {})
        assert meta["versions"]["toolscript"]

    def test_the_right_tools_are_found(self, written: dict[str, Any]) -> None:
        first = {row["engine"]: row for row in written["results"] if row["dataset"] == "first"}
        assert {engine: row["mrr"] for engine, row in first.items()} == dict.fromkeys(OWN, 1.0)
        assert first["toolscript"]["r5"] == 1.0

    def test_the_table(self, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["--data", str(data), "--engines", "fuzzy, minilm", "--sample", "1"]) == 0
        out, err = capsys.readouterr()
        lines = [line.strip("| ").split(" | ") for line in out.splitlines()]
        assert lines[0][:6] == ["dataset", "engine", "queries", "R@1", "R@5", "R@10"]
        assert [line[:3] for line in lines[2:]] == [
            ["first", "fuzzy", "1"],
            ["first", "minilm", "1"],
            ["second", "fuzzy", "1"],
            ["second", "minilm", "1"],
            ["macro average", "fuzzy", "2"],
            ["macro average", "minilm", "2"],
        ]
        assert not err, "progress is for a terminal"

    def test_compare(self, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = tmp_path / "figures.json"
        command = ["--data", str(data), "--engines", "fuzzy", "--json", str(file)]
        pairs = ["--compare", "fuzzy", "toolscript-lexical", "--compare", "fuzzy", "fuzzy"]
        assert main([*command, *pairs]) == 0
        found, same = json.loads(file.read_text("utf-8"))["comparisons"]
        assert {row["difference"] for row in same["datasets"]} == {0.0}
        assert found["engines"] == ["fuzzy", "toolscript-lexical"]
        assert [row["dataset"] for row in found["datasets"]] == ["first", "second", compare.MACRO]
        assert "95 % interval" in capsys.readouterr().out

    def test_a_gate_that_is_not(self, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
        command = ["--data", str(data), "--datasets", "second", "--fail-under", "r1=0.9"]
        assert main(command) == 1
        assert capsys.readouterr().err == "toolscript on second: R@1 is 0.7500, below 0.9\n"


class TestBadInput:
    @pytest.fixture
    def data(self, tmp_path: Path) -> Path:
        _folder(tmp_path)
        return tmp_path

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ([], "--data is missing"),
            (["--data", "nowhere"], "nowhere: there is no such folder"),
            (["--data", "{}", "--datasets", "huge"], "has no dataset 'huge'; it has tiny"),
            (["--data", "{}", "--engines", "google"], "no engine 'google'; there are toolscript,"),
            (["--data", "{}", "--fail-under", "ndcg=1"], "'ndcg=1' is not METRIC=VALUE"),
            (["--data", "{}", "--fail-under", "r1=nan"], "VALUE from 0 to 1"),
        ],
    )
    def test_is_said_in_one_line(
        self, data: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as ended:
            main([argument.format(data) for argument in arguments])
        err = capsys.readouterr().err
        assert ended.value.code == 2
        assert said in err
        assert err.count("\n") == 1

    @pytest.mark.parametrize(
        ("file", "line", "said"),
        [
            ("tools.jsonl", b"{", "tools.jsonl:2: Input data was truncated"),
            ("tools.jsonl", b'{"id": "a", "server": "s"}', "missing required field `name`"),
            ("tools.jsonl", json.dumps(TOOLS[0]).encode(), "'mail__send' was used before"),
            ("queries.jsonl", b'{"query": "a", "relevant": []}', "no tool is relevant"),
            ("queries.jsonl", b'{"query": " ", "relevant": ["w"]}', "the query is empty"),
            ("queries.jsonl", b'{"query": "a", "relevant": ["x"]}', "'x' is not in tools.jsonl"),
        ],
    )
    def test_a_line_that_is_wrong(self, data: Path, file: str, line: bytes, said: str) -> None:
        path = data / "tiny" / file
        first = path.read_bytes().split(b"\n")[0]
        path.write_bytes(first + b"\n" + line + b"\n")
        if file == "tools.jsonl":
            (data / "tiny" / "queries.jsonl").write_text(json.dumps(QUERIES[0]), "utf-8")
        with pytest.raises(DataError, match=re.escape(said)):
            datasets.load(data / "tiny")

    def test_a_folder_without_tools(self, data: Path) -> None:
        (data / "notes").mkdir()
        with pytest.raises(DataError, match=r"notes is no dataset: it has no tools.jsonl"):
            datasets.find(data)


class _Failing:
    """An engine that fails on its second dataset, as a peer in its process may."""

    def __init__(self) -> None:
        self._indexed = 0

    def index(self, tools: Sequence[Tool]) -> float:
        self._indexed += 1
        if self._indexed == 2:
            raise PeerError(f"cannot take {len(tools)} tools")
        return 0.0

    def search(self, text: str) -> tuple[list[str], float]:
        return [text], 0.1

    def close(self) -> None:
        pass


class TestPeers:
    def test_an_engine_that_fails_is_left_out_and_the_others_go_on(self, tmp_path: Path) -> None:
        loaded = [datasets.load(_folder(tmp_path, name)) for name in ("a", "b")]
        found = measure(loaded, {"failing": _Failing(), "fuzzy": Timed(OWN["fuzzy"])})
        assert found.failed == {"failing on b": "cannot take 6 tools"}
        assert [(r.engine, r.dataset) for r in found.results] == [
            ("failing", "a"),
            ("fuzzy", "a"),
            ("fuzzy", "b"),
        ]
        assert found.macro("failing") is None, "over fewer datasets it is no average of the same"
        assert found.macro("fuzzy") is not None
        assert list(found.differences("fuzzy", "failing", "mrr")) == ["a"]

    def test_one_that_is_not_installed(self, tmp_path: Path) -> None:
        with pytest.raises(PeerError, match="--install-peers"):
            Peer("bm25s", tmp_path)

    def test_every_package_is_pinned_by_hash_and_nothing_names_a_host(self) -> None:
        text = peers.REQUIREMENTS.read_text("utf-8")
        pinned = re.findall(r"^([\w.-]+)==\S+(?: ;[^\\]*)? \\\n {4}--hash", text, re.MULTILINE)
        assert len(pinned) == len(re.findall(r"^\S", text, re.MULTILINE))
        lines = peers.REQUIREMENTS.with_suffix(".in").read_text("utf-8").splitlines()
        asked = {line for line in lines if not line.startswith("#")}
        assert {package for package, _ in PEERS.values()} <= asked <= set(pinned)
        assert "//" not in text


class TestGuide:
    def test_every_metric_and_engine_is_explained(self) -> None:
        text = (DOCS / "guides" / "measuring.md").read_text("utf-8")
        assert [name for name in (*metrics.LABELS, *ENGINES) if f"`{name}`" not in text] == []
        assert (ROOT / "benchmarks" / "quality" / "__main__.py").is_file()
