"""`benchmarks.everyday`: its sentences, and how it counts answers."""

import re
import tomllib
from collections import Counter

from benchmarks.everyday.__main__ import HERE, Answer, Sentence, sentences, summarize

from tests.gateway.upstream.test_real_servers import NAMES

TOOL = re.compile(r"([a-z]+)__[\w.-]+")
DEMO = {*NAMES}


def test_the_sentences_are_different_and_name_tools_of_the_catalogue() -> None:
    rows = sentences()
    assert len(rows) == len({row.text for row in rows}) == 300
    servers = set(tomllib.loads((HERE / "catalogue.toml").read_text("utf-8"))["servers"])
    assert len(servers) == 15
    named: set[str] = set()
    for row in rows:
        assert bool(row.tools) == (row.kind != "nothing"), row.text
        assert len(set(row.tools)) == len(row.tools), row.text
        for tool in row.tools:
            match = TOOL.fullmatch(tool)
            assert match, tool
            named.add(match[1])
    assert named == servers | DEMO


def test_a_third_of_each_kind_is_kept() -> None:
    rows = sentences()
    kept = Counter(row.kind for row in rows if row.part == "kept")
    for kind, number in Counter(row.kind for row in rows).items():
        assert kept[kind] == round(number / 3), kind


def answer(tools: tuple[str, ...], place: int, verdict: str) -> Answer:
    sentence = Sentence("x", "plain" if tools else "nothing", "dev", tools)
    return Answer(sentence, place, ("a__a", 0.5), verdict)


def test_shares_are_counted() -> None:
    answers = [
        answer(("a__a",), 1, "good"),
        answer(("a__b",), 4, "good"),
        answer(("a__b",), 2, "weak"),
        answer(("a__b",), 1, "none"),
        answer((), 0, "none"),
        answer((), 0, "weak"),
    ]
    assert summarize(answers) == {
        "sentences": 6,
        "first 1": 0.5,
        "first 3": 0.75,
        "first 10": 1.0,
        "off-topic, none": 0.5,
        "good": 0.5,
        "weak": 0.5,
        "none": 0.5,
    }
    assert summarize([])["first 1"] is None
