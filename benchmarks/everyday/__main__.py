"""The command line of `benchmarks.everyday`."""

import argparse
import json
import sys
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from benchmarks import report
from benchmarks.arguments import Parser
from benchmarks.model_side.__main__ import SERVERS, demo_gateway
from benchmarks.quality import datasets
from benchmarks.quality.datasets import DataError
from benchmarks.quality.own import semantic
from toolscript.config.settings import OPTION
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.profiles import search_profile
from toolscript.types import Document, SearchRequest, ToolSpec

HERE = Path(__file__).parent
FIRST = (1, 3, 10)
MOST = 100
"""So many tools are looked at."""
VERDICT_DEPTH = 3
"""The verdict "good" is right if one of so many first tools is."""


class Sentence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sentence, and all tools that would do; none if nothing answers it."""

    text: str
    kind: str
    part: Literal["dev", "kept"]
    tools: tuple[str, ...]


class Answer(NamedTuple):
    """The answer of the engine to a sentence."""

    sentence: Sentence
    place: int
    """The place of the first right tool, from 1; 0 if none is among the first `MOST`."""
    best: tuple[str, float]
    verdict: str

    def is_among(self, first: int) -> bool:
        """Whether a right tool is among the first that a model is shown."""
        return 0 < self.place <= first


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; the exit code."""
    parser = Parser(prog="python -m benchmarks.everyday", description="Everyday sentences.")
    parser.add_data()
    parser.add_argument("--part", choices=("dev", "kept"), help="one part; both without it")
    parser.add_argument("--tools", type=Path, metavar="FILE", help="the demo's tools, kept there")
    parser.add_argument("--failures", action="store_true", help="print the failures of dev")
    parser.add_json()
    options = parser.parse_args(arguments)
    try:
        answers = _ask(_catalogue(options), options.part)
    except DataError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    if options.failures:
        _print_failures(answers)
    parts = {part: [a for a in answers if a.sentence.part == part] for part in ("dev", "kept")}
    groups = {"all": answers, **parts}
    groups |= {f"dev, {kind}": _of_kind(parts["dev"], kind) for kind in _kinds(parts["dev"])}
    rows = {name: summarize(group) for name, group in groups.items() if group}
    _print(rows)
    report.write(options.json, {"meta": report.meta(), "results": rows})
    return 0


def sentences() -> list[Sentence]:
    """Returns the sentences of the file."""
    lines = (HERE / "sentences.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Sentence) for line in lines]


def summarize(answers: Sequence[Answer]) -> dict[str, Any]:
    """Returns the shares of answers; None for a share of nothing."""
    asked = [a for a in answers if a.sentence.tools]
    off_topic = [a for a in answers if not a.sentence.tools]

    def precision(verdict: str, is_right: Callable[[Answer], bool]) -> float | None:
        return _share([a for a in answers if a.verdict == verdict], is_right)

    return {
        "sentences": len(answers),
        **{f"first {n}": _share(asked, lambda a, n=n: a.is_among(n)) for n in FIRST},
        "off-topic, none": _share(off_topic, lambda a: a.verdict == "none"),
        "good": precision("good", lambda a: a.is_among(VERDICT_DEPTH)),
        "weak": precision("weak", lambda a: a.is_among(VERDICT_DEPTH)),
        "none": precision("none", lambda a: not a.sentence.tools),
    }


def _share(answers: Sequence[Answer], holds: Callable[[Answer], bool]) -> float | None:
    return sum(map(holds, answers)) / len(answers) if answers else None


def _catalogue(options: argparse.Namespace) -> list[Document]:
    """Returns the tools of the demo's servers and of the fifteen."""
    servers = tomllib.loads((HERE / "catalogue.toml").read_text("utf-8"))["servers"]
    sets = {source["set"] for source in servers.values()}
    read = {name: datasets.tools(options.data / name) for name in sets}
    tools = [
        ToolSpec(
            server=name,
            name=tool.name,
            description=tool.description or "",
            input_schema=tool.input_schema or {},
        )
        for name, source in servers.items()
        for tool in read[source["set"]]
        if tool.server == source["server"]
    ]
    return [Document.of(tool) for tool in [*_demo_tools(options.tools), *tools]]


def _demo_tools(file: Path | None) -> list[ToolSpec]:
    if file is not None and file.is_file():
        listed = file.read_bytes()
    elif (SERVERS / "servers.json").is_file():
        with demo_gateway() as (gateway, _):
            key = {"Authorization": f"Bearer {gateway.key}"}
            _, listed, _ = gateway.ask("GET", "/tools", headers=key)
        if file is not None:
            file.write_bytes(listed)
    else:
        raise DataError("the demo's servers are not installed; run bash scripts/demo")
    return [
        ToolSpec(
            server=tool["serverName"],
            name=tool["toolName"],
            title=tool["title"],
            description=tool["description"],
            input_schema=tool["inputSchema"],
        )
        for tool in json.loads(listed)["tools"]
    ]


def _ask(catalogue: Sequence[Document], part: str | None) -> list[Answer]:
    asked = [s for s in sentences() if part in (None, s.part)]
    ids = {document.id for document in catalogue}
    missing = sorted({tool for sentence in asked for tool in sentence.tools} - ids)
    if missing:
        raise DataError(f"the servers lack {len(missing)} tools of the sentences: {missing[:5]}")
    engine = SearchEngine(
        search_profile(OPTION["alpha"].default, MOST, threshold=0.0), semantic=semantic()
    )
    engine.update(catalogue)
    return [_answer(engine, sentence) for sentence in asked]


def _answer(engine: SearchEngine, sentence: Sentence) -> Answer:
    result = engine.search(SearchRequest(text=sentence.text))
    hits = result.hits
    right = [n for n, hit in enumerate(hits, 1) if hit.document.id in sentence.tools]
    first = (hits[0].document.id, hits[0].score)
    return Answer(sentence, right[0] if right else 0, first, result.fit)


def _kinds(answers: Iterable[Answer]) -> list[str]:
    return list(dict.fromkeys(answer.sentence.kind for answer in answers))


def _of_kind(answers: Iterable[Answer], kind: str) -> list[Answer]:
    return [answer for answer in answers if answer.sentence.kind == kind]


def _print(rows: dict[str, dict[str, Any]]) -> None:
    header = ["", *next(iter(rows.values()))]
    report.table(header, [[name, *map(_cell, row.values())] for name, row in rows.items()])


def _cell(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.1%}"


def _print_failures(answers: Iterable[Answer]) -> None:
    for answer in answers:
        sentence = answer.sentence
        is_right = answer.is_among(VERDICT_DEPTH) if sentence.tools else answer.verdict == "none"
        if sentence.part == "dev" and not is_right:
            tool, score = answer.best
            print(f"{sentence.kind}: {sentence.text!r}: place {answer.place}, {tool} {score:.2f}")


if __name__ == "__main__":
    sys.exit(main())
