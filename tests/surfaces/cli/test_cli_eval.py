"""``toolscript eval``: tools of a file, of a configuration and of a gateway."""

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.quality.__main__ import main as quality
from tests.support import FUZZY, READ_FILE, SEND_MAIL, Cli, Scripted, tool

PARTS = ("door", "wall", "roof", "floor", "fence", "gate", "window", "stairs")
LISTING = {
    "result": {
        "tools": [
            tool("read_file", "Read the content of a file"),
            tool("send_mail", "Send a message to a person by e-mail"),
            tool("do_it", "Performs the operation"),
            *(tool(f"paint_{each}", f"Paint the {each} of a house") for each in PARTS),
        ]
    }
}
QUESTIONS = [
    {"question": "show me what is in this file", "relevant": ["tools__read_file"]},
    {"question": "write to Ana that I am late", "relevant": "tools__send_mail"},
    {"query": "e-mail the content of the file", "relevant": ["tools__do_it"]},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools.json").write_text(json.dumps(LISTING), "utf-8")
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, QUESTIONS)), "utf-8")
    return tmp_path


def evaluate(cli: Cli, folder: Path, *options: str) -> Any:
    tools = ("--tools", str(folder / "tools.json"))
    return cli("eval", str(folder / "questions.jsonl"), *tools, *options)


def test_the_figures_are_those_of_the_benchmark(
    cli: Cli, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data" / "small"
    data.mkdir(parents=True)
    rows = [
        {"id": f"x/{each['name']}", "server": "x", "name": each["name"]}
        | {"description": each["description"], "input_schema": each["inputSchema"]}
        for each in LISTING["result"]["tools"]
    ]
    (data / "tools.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    asked = [
        {"query": "show what is in this file", "relevant": ["x/read_file"]},
        {"query": "write to Ana that I am late", "relevant": ["x/send_mail", "x/do_it"]},
    ]
    (data / "queries.jsonl").write_text("\n".join(map(json.dumps, asked)), "utf-8")
    file = tmp_path / "measured.json"
    assert (
        quality(["--data", str(data.parent), "--engines", "toolscript", "--json", str(file)]) == 0
    )
    capsys.readouterr()
    (row,) = json.loads(file.read_text())["results"]
    done = cli.json("eval", str(data / "queries.jsonl"), "--tools", str(data / "tools.jsonl"))
    for key in ("r1", "r5", "r10", "mrr", "ndcg10"):
        assert done["figures"][key] == pytest.approx(row[key], abs=5e-5), key


def test_misses_are_named_with_the_reason(cli: Cli, folder: Path) -> None:
    odd = {"question": "paint a house", "relevant": ["tools__do_it"]}
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, [*QUESTIONS, odd])), "utf-8")
    found = json.loads(evaluate(cli, folder, "--output", "json").stdout)
    assert found["questions"] == 4
    assert found["figures"]["r1"] == pytest.approx(2 / 4)
    (miss,) = found["misses"]
    assert miss["rank"] > 5
    text = evaluate(cli, folder).stdout
    assert f"paint a house: wanted tools__do_it, found {', '.join(miss['found'])}; " in text
    assert miss["why"] in text


def test_a_threshold_and_a_baseline_decide_about_the_exit_code(cli: Cli, folder: Path) -> None:
    assert evaluate(cli, folder, "--min-recall5", "0.9").returncode == 0
    baseline = folder / "baseline.json"
    baseline.write_text(evaluate(cli, folder, "--output", "json").stdout, "utf-8")
    assert evaluate(cli, folder, "--baseline", str(baseline)).returncode == 0
    worse = [*QUESTIONS, {"question": "paint a house", "relevant": ["tools__do_it"]}]
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, worse)), "utf-8")
    done = evaluate(cli, folder, "--baseline", str(baseline))
    assert done.returncode == 1
    assert "R@1 is 0.5000, below the baseline's 0.6667" in done.stderr
    done = evaluate(cli, folder, "--min-recall5", "0.9")
    assert done.returncode == 1
    assert "R@5 is 0.7500, below --min-recall5 0.9000" in done.stderr


def test_a_configuration_and_its_gateway_answer_alike(
    cli: Cli, scripted: Scripted, tmp_path: Path
) -> None:
    cli.env = FUZZY
    more = [tool(f"read_file_{number}", "Read a file") for number in range(5)]
    odd = tool("odd", "Marks\0 a page.")  # which is no question for HTTP
    cli.configure(files=scripted(READ_FILE), mail=scripted(SEND_MAIL, odd, *more))
    asked = tmp_path / "questions.jsonl"
    pairs = [("read file", "files__read_file"), ("read file", "mail__send_mail")]
    rows = [json.dumps({"question": text, "relevant": [right]}) for text, right in pairs]
    asked.write_text("\n".join(rows), "utf-8")
    alone = cli.json("eval", str(asked))
    assert alone["questions"] == 2
    assert alone["figures"]["r5"] == 0.5
    (miss,) = alone["misses"]
    assert "is below the threshold" in miss["why"]
    cli.start_gateway()
    assert cli.json("eval", str(asked)) == alone


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("{", "questions.jsonl:1: this is no JSON"),
        ('{"question": 1, "relevant": ["a"]}', "questions.jsonl:1: expected"),
        ('{"question": "x", "relevant": []}', "questions.jsonl:1: expected"),
        ('{"question": "", "relevant": ["a"]}', "questions.jsonl:1: expected"),
        ("", "has no question"),
        ('{"question": "x", "relevant": ["a"]}', "names 'a', which is no tool of this catalogue"),
    ],
)
def test_bad_questions_are_refused_in_one_line(
    cli: Cli, folder: Path, content: str, line: str
) -> None:
    (folder / "questions.jsonl").write_text(content, "utf-8")
    done = evaluate(cli, folder)
    assert done.returncode == 2
    assert line in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_bad_files_are_refused_in_one_line(cli: Cli, folder: Path) -> None:
    done = evaluate(cli, folder, "--baseline", str(folder / "tools.json"))
    assert done.returncode == 2
    assert "is no baseline; make one with" in done.stderr
    for content in ("", "[1]", "{", '{"tools": 1}'):
        (folder / "tools.json").write_text(content, "utf-8")
        done = evaluate(cli, folder)
        assert done.returncode == 2
        assert "tools.json has no tools" in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    done = cli("eval", str(folder / "nothing.jsonl"), "--tools", str(folder / "tools.json"))
    assert done.returncode == 2
