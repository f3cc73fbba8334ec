"""What is trained on, and what is kept from it. PyTorch is not installed here."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks.everyday.__main__ import sentences
from benchmarks.quality.datasets import DataError
from training.batches import batches
from training.data import PERMISSIVE, QUESTIONS, WILD, Question

from toolscript.text.words import words
from training import data


def write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


@pytest.fixture
def own() -> list[dict[str, Any]]:
    return [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines()]


@pytest.fixture
def bench(tmp_path: Path, own: list[dict[str, Any]]) -> Path:
    """The tools that the questions name, and a dataset of each licence that is trained on."""
    ids = dict.fromkeys(each for row in own for each in row["relevant"])
    servers = {each: row["server"] for row in own for each in row["relevant"]}
    write(
        tmp_path / WILD / "tools.jsonl",
        [{"id": each, "server": servers[each], "name": each.split("__")[-1]} for each in ids],
    )
    for name in PERMISSIVE:
        write(tmp_path / name / "tools.jsonl", [{"id": "a", "server": "s", "name": "a"}])
        rows = [
            {"query": f"{split} {number}", "relevant": ["a"], "split": split}
            for split in ("train", "test")
            for number in range(40)
        ]
        write(tmp_path / name / "queries.jsonl", rows)
    return tmp_path


def test_questions_are_ours_and_say_what_they_are(own: list[dict[str, Any]]) -> None:
    assert len(own) > 21_000
    assert {row["kind"] for row in own} == {"ask", "task", "search", "everyday"}
    assert all(row["query"].strip() and row["relevant"] for row in own)


def test_an_eighth_of_the_servers_validates_and_is_not_trained_on(
    bench: Path, own: list[dict[str, Any]]
) -> None:
    found = data.load(bench)
    kept = {row["query"] for row in own if data.validates(row["server"])}
    assert {query.query for query in found.validation_queries} == kept
    assert 0.08 < len(kept) / len(own) < 0.17
    trained = {question.text for question in found.questions}
    shared = trained & kept  # two readers may have written the same words
    assert len(shared) < len(kept) / 100
    known = {tool.id for tool in found.validation_tools}
    assert all(known.issuperset(query.relevant) for query in found.validation_queries)


def test_everyday_sentences_are_marked_and_are_not_those_of_the_benchmark(
    bench: Path, own: list[dict[str, Any]]
) -> None:
    everyday = {row["query"] for row in own if row["kind"] == data.EVERYDAY}
    found = {question.text for question in data.load(bench).questions if question.is_everyday}
    assert found <= everyday
    assert len(found) > 1_400
    measured = {" ".join(words(sentence.text)) for sentence in sentences()}
    assert not {" ".join(words(text)) for text in everyday} & measured


def test_of_a_dataset_three_quarters_of_the_train_half_are_trained_on(bench: Path) -> None:
    found = data.load(bench)
    texts = [question.text for question in found.questions if question.group.endswith("/s")]
    assert not any(text.startswith("test") for text in texts)
    kept = {f"train {number}" for number in range(40) if data.is_for_fusion(f"train {number}")}
    assert set(texts) == {f"train {number}" for number in range(40)} - kept
    assert kept


def test_a_question_names_tools_of_its_own_catalogue(bench: Path) -> None:
    found = data.load(bench)
    for question in found.questions:
        assert all(0 <= number < len(found.tools) for number in question.relevant)
    last = found.questions[-1]
    assert found.tools[last.relevant[0]].id == "a"


def test_a_tool_that_is_not_there_is_named(bench: Path) -> None:
    text = next(text for text in "abcdefgh" if not data.is_for_fusion(text))
    write(
        bench / "metatool" / "queries.jsonl",
        [{"query": text, "relevant": ["gone"], "split": "train"}],
    )
    with pytest.raises(DataError, match=r"'gone' is not in tools\.jsonl"):
        data.load(bench)


def test_the_digest_is_that_of_all_that_is_read(bench: Path) -> None:
    before = data.digest(bench)
    assert data.digest(bench) == before
    path = bench / "seal_tools" / "queries.jsonl"
    path.write_text(path.read_text("utf-8") + "\n", "utf-8")
    assert data.digest(bench) != before


def test_a_batch_holds_several_questions_of_a_server() -> None:
    questions = [
        Question(f"{group} {number}", (number,), f"group {group}")
        for group in range(20)
        for number in range(12)
    ]
    found = list(batches(questions, size=24, siblings=6, seed=3))
    assert [len(batch) for batch in found] == [24] * 10
    seen = [question for batch in found for question in batch]
    assert len(set(seen)) == len(seen) == len(questions)
    groups = [[question.group for question in batch] for batch in found]
    assert all(each.count(each[0]) >= 6 for each in groups)
    assert found == list(batches(questions, size=24, siblings=6, seed=3))
    assert found != list(batches(questions, size=24, siblings=6, seed=4))
