"""The command line of `benchmarks.robustness`."""

import argparse
import random
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.arguments import Parser
from benchmarks.quality import datasets
from benchmarks.quality.datasets import DataError, Dataset, Tool
from benchmarks.quality.own import document, semantic
from benchmarks.robustness import gamed
from benchmarks.robustness.edits import SENTENCES, misspelled
from toolscript.config.settings import MAX_QUERY_CHARS, OPTION
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.profiles import search_profile
from toolscript.text.words import compact, words
from toolscript.types import Document, Hit, SearchRequest

SEED = 7
DRAWN = 500
SPELLED = 4000
"""Of the exact spellings so many are drawn: all of them would be 56,000 searches."""
FEW = 527
LEAST_LETTERS = 5
"""Names shorter than this are not misspelled: one edit makes another name of them."""
TOP = 3
NOTHING = Path(__file__).with_name("nothing.txt")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; the exit code."""
    parser = Parser(
        prog="python -m benchmarks.robustness",
        description="Typos, exact names, nonsense: what a search makes of queries at the edge.",
    )
    add = parser.add_argument
    parser.add_data()
    add("--names", default="wild_mcp", metavar="SET", help="the dataset whose names are asked for")
    add("--among", default="livemcpbench", metavar="SET", help="where nothing is to be found")
    add("--datasets", metavar="A,B", help="whose queries must survive; without it, all")
    add("--sample", type=int, default=250, metavar="N", help="at most N queries of each dataset")
    add("--gamed", default="azure_mcp", metavar="A,B", help="beside which a hostile server stands")
    add("--lexical", action="store_true", help="without the model")
    parser.add_json()
    options = parser.parse_args(arguments)
    try:
        found = _measure(options)
    except DataError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    report.write(options.json, {"meta": report.meta(seed=SEED, drawn=DRAWN), **found})
    return 0


def _measure(options: argparse.Namespace) -> dict[str, Any]:
    catalogue = datasets.tools(options.data / options.names)
    names = _names(catalogue, lexical=options.lexical)
    _table("names", ["asked for by", "tools", "asked", "first"], names)
    nothing = _nothing(datasets.tools(options.data / options.among), lexical=options.lexical)
    _table("nothing", ["queries", "tools", "asked", "nothing returned"], [nothing])
    chosen = options.datasets.split(",") if options.datasets else None
    folders = datasets.find(options.data, chosen)
    loaded = [datasets.load(folder, options.sample) for folder in folders]
    survivors = [_survivors(dataset, lexical=options.lexical) for dataset in loaded]
    survivors.append(_total(survivors))
    _table("survivors", ["dataset", "tools", "in the first 3", "returned"], survivors)
    hostile = [
        {"dataset": name, **row}
        for name in options.gamed.split(",")
        for row in _gamed(options, name)
    ]
    return {"names": names, "nothing": [nothing], "survivors": survivors, "gamed": hostile}


def _gamed(options: argparse.Namespace, name: str) -> list[dict[str, Any]]:
    dataset = datasets.load(options.data / name)
    asked = [(query.query, query.relevant) for query in dataset.queries]
    rows = gamed.measure([document(tool) for tool in dataset.tools], asked, SEED)
    print(f"\n### a hostile server beside {name}\n")
    shown = ("style", "tools", "asked", "first", "in_three", "right_first")
    report.table([*shown], [[str(row[key]) for key in shown] for row in rows])
    sys.stdout.flush()
    return rows


def _engine(documents: Iterable[Document], *, lexical: bool) -> SearchEngine:
    profile = search_profile(OPTION["alpha"].default, TOP, OPTION["threshold"].default)
    engine = SearchEngine(profile, semantic=None if lexical else semantic())
    engine.update(documents)
    return engine


def _names(catalogue: Sequence[Tool], *, lexical: bool) -> list[dict[str, Any]]:
    rng = random.Random(SEED)  # noqa: S311 - the same draw every time
    every = [document(tool) for tool in catalogue]
    long = [each for each in every if len(compact(each.name)) >= LEAST_LETTERS]
    drawn = rng.sample(long, min(DRAWN, len(long)))
    wrong = [(each, misspelled(each.name, rng)) for each in drawn]
    said = [(each, rng.choice(SENTENCES).format(text)) for each, text in wrong]
    chosen = {each.id for each in drawn}
    others = [each for each in every if each.id not in chosen]
    few = [*drawn, *rng.sample(others, max(0, min(FEW - len(drawn), len(others))))]
    exact = [(each, text) for each in every for text in _spellings(each)]
    exact = rng.sample(exact, min(SPELLED, len(exact)))
    rows: list[dict[str, Any]] = []
    for among in (few, every):
        engine = _engine(among, lexical=lexical)
        rows.append(_found(engine, "name, one edit", len(among), wrong))
        rows.append(_found(engine, "the same in a sentence", len(among), said))
    rows.append(_found(engine, "exact name, id or words", len(every), exact))
    return rows


def _spellings(each: Document) -> list[str]:
    spellings = [each.name, each.id, f"{each.server}:{each.name}", " ".join(words(each.name))]
    return [text for text in spellings if text.strip() and len(text) <= MAX_QUERY_CHARS]


def _found(
    engine: SearchEngine, label: str, tools: int, asked: Sequence[tuple[Document, str]]
) -> dict[str, Any]:
    """The share of queries whose tool, or one of the same name, is first or ties with the first."""
    right = sum(_is_first(engine, wanted, text) for wanted, text in asked)
    return _row(label, tools, len(asked), right)


def _is_first(engine: SearchEngine, wanted: Document, text: str) -> bool:
    hits = engine.search(SearchRequest(text=text, limit=100, threshold=0)).hits
    first = [hit.document for hit in hits if hit.score == hits[0].score]
    names = {wanted.name, compact(wanted.name)}
    return any(each.name in names or compact(each.name) in names - {""} for each in first)


def _nothing(catalogue: Sequence[Tool], *, lexical: bool) -> dict[str, Any]:
    lines = NOTHING.read_text(encoding="utf-8").splitlines()
    queries = [line for line in lines if not line.startswith("# ")]
    engine = _engine([document(tool) for tool in catalogue], lexical=lexical)
    returned = {text: engine.search(SearchRequest(text=text)).hits for text in queries}
    for text, hits in returned.items():
        if hits:
            print(f"  {text!r} returns {_shown(hits[0])}", file=sys.stderr)
    silent = sum(not hits for hits in returned.values())
    return _row(NOTHING.name, len(catalogue), len(queries), silent)


def _shown(hit: Hit) -> str:
    return f"{hit.document.id} {hit.score:.2f} {hit.reason}"


def _survivors(dataset: Dataset, *, lexical: bool) -> dict[str, Any]:
    engine = _engine([document(tool) for tool in dataset.tools], lexical=lexical)
    there = stayed = 0
    for query in dataset.queries:
        hits = engine.search(SearchRequest(text=query.query[:MAX_QUERY_CHARS], threshold=0)).hits
        right = [hit for hit in hits if hit.document.id in query.relevant]
        there += bool(right)
        stayed += any(hit.score >= engine.profile.threshold for hit in right)
    return _row(dataset.name, len(dataset.tools), there, stayed)


def _row(label: str, tools: int, asked: int, right: int) -> dict[str, Any]:
    return {"label": label, "tools": tools, "asked": asked, "share": right / max(1, asked)}


def _total(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    asked = sum(row["asked"] for row in rows)
    right = round(sum(row["share"] * row["asked"] for row in rows))
    return _row("all of them", sum(row["tools"] for row in rows), asked, right)


def _table(title: str, header: list[str], rows: Sequence[dict[str, Any]]) -> None:
    print(f"\n### {title}\n")
    cells = [
        [str(row["label"]), f"{row['tools']:,}", f"{row['asked']:,}", f"{row['share']:.1%}"]
        for row in rows
    ]
    report.table(header, cells)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
