import json
import random
from pathlib import Path

import pytest
from benchmarks.robustness.__main__ import NOTHING, main
from benchmarks.robustness.edits import misspelled
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from tests.corpus import ROWS


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The small catalogue as a dataset with one question."""
    folder = tmp_path / "small"
    folder.mkdir()
    tools = [
        {"id": f"{server}__{name}", "server": server, "name": name, "description": text}
        for server, rows in ROWS.items()
        for name, (text, *_) in rows.items()
    ]
    query = {"query": "commit my changes to git", "relevant": ["git__git_commit"]}
    (folder / "tools.jsonl").write_text("\n".join(map(json.dumps, tools)), "utf-8")
    (folder / "queries.jsonl").write_text(json.dumps(query), "utf-8")
    return tmp_path


@pytest.mark.requirement("search:calibrated")
def test_names_typos_nonsense_and_survivors_are_counted(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = data / "found.json"
    chosen = ["--data", str(data), "--names", "small", "--among", "small", "--datasets", "small"]
    chosen += ["--gamed", "small"]
    assert main([*chosen, "--json", str(written)]) == 0
    found = json.loads(written.read_text("utf-8"))
    shares = {row["label"]: row["share"] for row in found["names"]}
    assert shares["exact name, id or words"] == 1.0
    assert shares["name, one edit"] >= 0.95
    assert found["nothing"][0]["asked"] == 200
    assert found["nothing"][0]["share"] >= 0.95
    assert found["survivors"][-1] == {"label": "all of them", "tools": 24, "asked": 1, "share": 1.0}
    assert {row["asked"] for row in found["gamed"]} == {1}
    assert found["gamed"][0]["first"] == 0
    assert "### survivors" in capsys.readouterr().out


def test_the_200_queries_are_all_different() -> None:
    lines = NOTHING.read_text("utf-8").splitlines()
    queries = [line for line in lines if not line.startswith("# ")]
    assert len(queries) == len(set(queries)) == 200


@given(name=st.from_regex(r"[a-z]{2,8}(_[a-z]{2,8}){0,2}", fullmatch=True), seed=st.integers())
def test_a_misspelling_is_at_most_one_edit_away(name: str, seed: int) -> None:
    assert OSA.distance(name, misspelled(name, random.Random(seed))) <= 1  # noqa: S311 - no secret
