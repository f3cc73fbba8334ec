"""Index time, memory, changes and searches by the number of tools, in memory and in PostgreSQL.

    python -m benchmarks.scale --data DIR [--tools 14191,100000,1000000] [--engine memory|postgres]
        [--vectors FILE] [--questions 40] [--repeats 3] [--no-reference] [--buffers 1GB]
        [--json FILE]

The tools are copies: see `benchmarks.scale.catalogue`. *First p50* is of questions that are asked
for the first time, *p50* and *p95* of all repeats, *least* of the least of each question's repeats.
In PostgreSQL, *same* is the share of questions whose first ten are those of all tools in memory.
Questions are embedded beforehand: that is the same for any number of tools.
"""

import argparse
import gc
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from tests.postgres_server import postgres_server

from benchmarks import report
from benchmarks.quality import datasets
from benchmarks.quality.own import bundled, encoder
from benchmarks.scale.catalogue import Catalogue, questions
from toolscript.config.settings import OPTION
from toolscript.embedding.base import CachedVector, Vectors
from toolscript.postgres import schema
from toolscript.postgres.catalogue_build import rebuild
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.large_catalogue import LargeCatalogue
from toolscript.retrieval.catalogue_analysis import Batch, CatalogueAnalyzer
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.retrieval.stored_search import StoredSearch
from toolscript.surfaces.server.process_memory import limit_heap, release_heap
from toolscript.types import Document, SearchRequest, SearchResult

FIRST = 10
TOLERANCE = 5e-4
"""Scores that differ less tie: vectors in the database have half the digits."""
CHANGES = 5
Ten = list[tuple[str, float]]
Figures = dict[str, Any]
Questions = dict[str, list[SearchRequest]]
Work = Callable[[], object]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale")
    add = parser.add_argument
    add("--data", type=Path, required=True, metavar="DIR", help="folder of the dataset folders")
    add("--tools", default="14191,100000", metavar="N,M", help="how many tools")
    add("--engine", default="memory", choices=("memory", "postgres"))
    add("--vectors", type=Path, metavar="FILE", help="keeps the tools' vectors")
    add("--questions", type=int, default=40, metavar="N", help="of each kind")
    add("--repeats", type=int, default=3, metavar="N", help="how often each is asked")
    add("--no-reference", action="store_true", help="do not compare with all tools in memory")
    add("--buffers", default="1GB", metavar="SIZE", help="of the database")
    add("--json", type=Path, metavar="FILE", help="write all figures there too")
    options = parser.parse_args(arguments)
    measure = _memory if options.engine == "memory" else _postgres
    try:
        rows = [measure(options, int(size)) for size in options.tools.split(",")]
    except datasets.DataError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    _print(rows)
    report.write(options.json, {"meta": report.meta(load=os.getloadavg()), "results": rows})
    return 0


def _print(rows: list[Figures]) -> None:
    names = ("index_s", "changed_ms", "visible_ms", "rss_mb")
    table = [
        [f"{row['tools']:,}", row["engine"], *(_shown(row.get(n)) for n in names)] for row in rows
    ]
    report.table(["tools", "engine", *names], table)
    print()
    keys = ("first p50", "p50", "p95", "least p50", "least p95", "CPU p50", "same")
    table = [
        [f"{row['tools']:,}", kind, *(_shown(found.get(key)) for key in keys)]
        for row in rows
        for kind, found in row["searches"].items()
    ]
    report.table(["tools", "questions", *keys], table)


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _apart(work: Callable[..., Any], *arguments: Any) -> Any:
    """Returns what ``work`` returns in a process of its own, so that memory can be told apart."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def _memory(options: argparse.Namespace, size: int) -> Figures:
    return _apart(_in_memory, options, size)[0]


def _in_memory(options: argparse.Namespace, size: int) -> tuple[Figures, dict[str, list[Ten]]]:
    limit_heap()  # as a gateway does
    catalogue = Catalogue(options.data, options.vectors)
    documents: list[Document] = []
    vectors: dict[str, CachedVector] = {}
    for batch, rows in catalogue.copies(size):
        documents.extend(batch)
        for document, row in zip(batch, rows, strict=True):
            vectors[document.id] = CachedVector(document.digest, row)
    semantic = SemanticSignal(bundled(), lambda: None)
    semantic.take(encoder().name, vectors)
    engine = SearchEngine(_profile(), semantic=semantic)
    index_s = _seconds(lambda: engine.update(documents))
    asked = questions(options.data, options.questions, catalogue, size)
    searches, tens = _searches(engine, asked, options.repeats)
    changes: list[float] = []
    for number in range(options.repeats):
        documents[-1 - number] = replace(documents[-1 - number], description=f"Changed {number}.")
        changes.append(_seconds(lambda: engine.update(documents)))
    figures = {
        "tools": size,
        "engine": "memory",
        "index_s": index_s,
        "changed_ms": 1e3 * min(changes),
        "rss_mb": _rss_mb(),
        "searches": searches,
    }
    return figures, tens


def _postgres(options: argparse.Namespace, size: int) -> Figures:
    expected: dict[str, list[Ten]] = {}
    if not options.no_reference:
        expected = _apart(_in_memory, options, size)[1]
    with postgres_server(shared_buffers=options.buffers, max_wal_size="8GB") as server:
        index_s = _apart(_rebuilt, options, size, server.url())
        figures, tens = _apart(_in_postgres, options, size, server.url())
    for kind, found in figures["searches"].items() if expected else ():
        pairs = list(zip(tens[kind], expected[kind], strict=True))
        found["same"] = sum(_alike(*pair) for pair in pairs) / len(pairs)
    return {"tools": size, "engine": "postgres", "index_s": index_s} | figures


def _rebuilt(options: argparse.Namespace, size: int, url: str) -> float:
    catalogue, analyzer, database = (
        Catalogue(options.data, options.vectors),
        CatalogueAnalyzer(),
        Database(url),
    )
    database.run(schema.migrate)

    def build() -> None:
        statistics = analyzer.statistics(catalogue.copies(size), encoder().name)
        tools = (analyzer.analyze(*batch, statistics) for batch in catalogue.copies(size))
        rebuild(database, "default", statistics, tools)

    seconds = _seconds(build)
    database.close()
    return seconds


def _in_postgres(
    options: argparse.Namespace, size: int, url: str
) -> tuple[Figures, dict[str, list[Ten]]]:
    tools = Catalogue(options.data, options.vectors)
    asked = questions(options.data, options.questions, tools, size)
    changing = _changing_server(tools)
    del tools
    gc.collect()
    limit_heap()  # as a gateway does
    (database, catalogue, engine), (other, _, watching) = _opened(url), _opened(url)
    gc.freeze()  # as a gateway does once it is ready
    searches, tens = _searches(engine, asked, options.repeats)
    rss_mb = _rss_mb()
    changed = _changes(catalogue, watching, *changing)
    database.close()
    other.close()
    return {"rss_mb": rss_mb, "searches": searches, **changed}, tens


def _opened(url: str) -> tuple[Database, LargeCatalogue, SearchEngine]:
    database = Database(url)
    database.open()
    semantic = SemanticSignal(bundled(), lambda: None)
    catalogue = LargeCatalogue(database, ChangeFeed(database, "default", url), "default")
    catalogue.open()
    search = StoredSearch(catalogue, semantic)
    return database, catalogue, SearchEngine(_profile(), semantic=semantic, elsewhere=search)


def _changing_server(catalogue: Catalogue) -> Batch:
    """Returns the tools of a server of usual size, with their vectors."""
    name = catalogue.tools[len(catalogue.tools) // 2].server
    rows = [row for row, tool in enumerate(catalogue.tools) if tool.server == name]
    return [catalogue.tools[row] for row in rows], catalogue.vectors[rows]


def _changes(
    catalogue: LargeCatalogue, watching: SearchEngine, tools: Sequence[Document], vectors: Vectors
) -> Figures:
    """Times one changed tool of a server, and until another gateway finds it."""
    written: list[float] = []
    seen: list[float] = []
    for number in range(CHANGES):
        word = f"zyqqx{number}"
        tools = [replace(tools[0], description=f"Changed by a {word}."), *tools[1:]]
        begin = time.perf_counter()
        analyzed = CatalogueAnalyzer().analyze(tools, vectors, catalogue.counts(())[0])
        catalogue.replace_server(tools[0].server, analyzed)
        written.append(1e3 * (time.perf_counter() - begin))
        request = SearchRequest(text=word, words_only=True)
        while tools[0].id not in dict(_ten(watching.search(request))):
            time.sleep(0.005)
        seen.append(1e3 * (time.perf_counter() - begin))
    return {"changed_ms": statistics.median(written), "visible_ms": max(seen)}


def _searches(
    engine: SearchEngine, asked: Questions, repeats: int
) -> tuple[Figures, dict[str, list[Ten]]]:
    """Returns the times of questions, and their first hits."""
    figures: Figures = {}
    tens: dict[str, list[Ten]] = {}
    for request in asked["question"]:
        engine.search(replace(request, limit=1))  # the model is loaded, the question embedded
    for kind, requests in asked.items():
        for request in requests:
            encoder().query(request.text)
        firsts = [1e3 * _seconds(lambda each=each: engine.search(each)) for each in requests]
        tens[kind] = [_ten(engine.search(request)) for request in requests]
        times, used = np.empty((2, repeats, len(requests)))
        for repeat in range(repeats):
            for number, request in enumerate(requests):
                begin = time.process_time()
                seconds = _seconds(lambda request=request: engine.search(request))
                times[repeat, number] = 1e3 * seconds
                used[repeat, number] = 1e3 * (time.process_time() - begin)
        least = times.min(axis=0)
        figures[kind] = {
            "first p50": statistics.median(firsts),
            "p50": float(np.median(times)),
            "p95": float(np.quantile(times, 0.95)),
            "least p50": float(np.median(least)),
            "least p95": float(np.quantile(least, 0.95)),
            "CPU p50": float(np.median(used.min(axis=0))),
        }
    return figures, tens


def _ten(result: SearchResult) -> Ten:
    return [(hit.document.id, hit.score) for hit in result.hits[:FIRST]]


def _alike(found: Ten, expected: Ten) -> bool:
    """Whether the same tools are hits; those that nearly tie with the last one may be others."""
    if len(found) != len(expected):
        return False
    least = expected[-1][1] + TOLERANCE if expected else 0.0
    ids = {identifier for identifier, _ in found}
    return all(score <= least or identifier in ids for identifier, score in expected)


def _profile() -> Any:
    return search_profile(OPTION["alpha"].default, FIRST, 0.0)


def _seconds(work: Work) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _rss_mb() -> float:
    release_heap()  # as a gateway does twice a minute
    with suppress(OSError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))
    return float("nan")
