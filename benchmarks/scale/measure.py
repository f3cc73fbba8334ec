"""Index time, memory, changes and searches by the number of tools, in memory and in PostgreSQL.

    python -m benchmarks.scale --data DIR [--tools 14191,100000,1000000] [--engine memory|postgres]
        [--vectors FILE] [--questions 100] [--repeats 3] [--reference memory|wide|none]
        [--buffers 1GB] [--json FILE]

The tools are copies: see `benchmarks.scale.catalogue`. A search is timed on the wall, and in
processor time of the process and of the database's; of each question the least of the repeats
counts for *least*, every one for *p50* and *p95*. After each search a baseline is timed: see
`benchmarks.scale.baselines`; *times baseline* is how many times as long the search takes. The first
ten are compared with those of the engine in memory, or of the database with ten times as many
candidates. Questions are embedded beforehand: that is the same for any number of
tools.
"""

import argparse
import asyncio
import gc
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from tests.postgres_server import postgres_server

from benchmarks import report
from benchmarks.quality import datasets
from benchmarks.quality.own import bundled, encoder
from benchmarks.scale.baselines import LARGEST, Baseline, numpy_baseline
from benchmarks.scale.catalogue import Catalogue, questions
from toolscript.config.settings import OPTION
from toolscript.embedding.base import CachedVector, Vectors
from toolscript.postgres import schema
from toolscript.postgres.candidate_builder import rebuild
from toolscript.postgres.candidate_writer import ServerTools
from toolscript.postgres.candidates import LISTED, DatabaseCandidates
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.surfaces.server.process_memory import limit_heap, release_heap
from toolscript.types import Document, SearchRequest, SearchResult

FIRST = 10
WIDE = 2_000
"""So many candidates of each list are compared with: ten times as many as are looked at."""
TOLERANCE = 2e-4
"""Scores that differ less are alike: vectors in the database have half the digits."""
SEEN_WITHIN_S = 60.0
"""A change that another gateway does not see within so many seconds ends the benchmark."""
Search = Callable[[SearchRequest], Awaitable[SearchResult]]
Ten = list[tuple[str, float]]
Figures = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale")
    add = parser.add_argument
    add("--data", type=Path, required=True, metavar="DIR", help="folder of the dataset folders")
    add("--tools", default="14191,100000", metavar="N,M", help="how many tools")
    add("--engine", default="memory", choices=("memory", "postgres"))
    add("--vectors", type=Path, metavar="FILE", help="keeps the tools' vectors")
    add("--questions", type=int, default=100, metavar="N", help="of each kind")
    add("--repeats", type=int, default=3, metavar="N", help="how often each is asked")
    add(
        "--reference",
        default="memory",
        choices=("memory", "wide", "none"),
        help="what is compared with",
    )
    add("--buffers", default="1GB", metavar="SIZE", help="of the database")
    add("--json", type=Path, metavar="FILE", help="write all figures there too")
    options = parser.parse_args(arguments)
    try:
        rows = [
            _memory(options, int(size)) if options.engine == "memory" else _postgres(options, size)
            for size in options.tools.split(",")
        ]
    except datasets.DataError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    except TimeoutError:
        line = f"a change was not seen by another gateway within {SEEN_WITHIN_S:g} s"
        print(f"{parser.prog}: {line}", file=sys.stderr)
        return 1
    _print(rows)
    report.write(options.json, {"meta": report.meta(load=os.getloadavg()), "results": rows})
    return 0


def _print(rows: list[Figures]) -> None:
    names = ("index_s", "changed_ms", "changed_cpu_ms", "visible_ms", "start_s", "rss_mb")
    table = [
        [f"{row['tools']:,}", row["engine"], *(_shown(row.get(n)) for n in names)] for row in rows
    ]
    report.table(["tools", "engine", *names], table)
    print()
    keys = {
        "first_p50": "first p50",
        "p50": "p50 ms",
        "p95": "p95 ms",
        "least_p50": "least p50",
        "least_p95": "least p95",
        "cpu_p50": "CPU p50",
        "baseline_p50": "baseline p50",
        "times_baseline": "times baseline",
        "same": "same",
    }
    report.table(
        ["tools", "questions", *keys.values()],
        [
            [f"{row['tools']:,}", kind, *(_shown(found.get(key)) for key in keys)]
            for row in rows
            for kind, found in row["searches"].items()
        ],
    )


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _apart(work: Callable[..., Any], *arguments: Any) -> Any:
    """Returns what ``work`` returns in a process of its own, so that memory can be told apart."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


# In memory


def _memory(options: argparse.Namespace, size: int) -> Figures:
    figures, _ = _apart(_in_memory, options, size)
    return figures


def _in_memory(options: argparse.Namespace, size: int) -> tuple[Figures, dict[str, list[Ten]]]:
    limit_heap()  # as a gateway does
    catalogue = Catalogue(options.data, options.vectors)
    documents: list[Document] = []
    vectors: dict[str, CachedVector] = {}
    parts: list[Vectors] = []
    for batch, rows in catalogue.copies(size):
        documents.extend(batch)
        parts.append(rows)
        for document, row in zip(batch, rows, strict=True):
            vectors[document.id] = CachedVector(document.digest, row)
    semantic = SemanticSignal(bundled(), lambda: None)
    semantic.take(encoder().name, vectors)
    engine = SearchEngine(_profile(), semantic=semantic)
    index_s, _ = _timed(lambda: engine.update(documents))
    search = _synchronous(engine)
    asked = questions(options.data, options.questions, catalogue, size)
    tens, firsts = asyncio.run(_tens(search, asked))
    baseline = numpy_baseline(parts)
    searched = asyncio.run(_searches(search, baseline, asked, firsts, options.repeats))
    changes: list[tuple[float, float]] = []
    for number in range(options.repeats):
        changed = replace(documents[-1 - number], description=f"Changed {number}.")
        documents[-1 - number] = changed
        changes.append(_timed(lambda: engine.update(documents)))
    figures = {
        "tools": size,
        "engine": "memory",
        "index_s": index_s,
        "changed_ms": 1e3 * min(wall for wall, _ in changes),
        "changed_cpu_ms": 1e3 * min(cpu for _, cpu in changes),
        "rss_mb": _rss_mb(),
        "searches": searched,
    }
    return figures, tens


def _synchronous(engine: SearchEngine) -> Search:
    async def search(request: SearchRequest) -> SearchResult:
        return engine.search(request)

    return search


# In PostgreSQL


def _postgres(options: argparse.Namespace, size: str) -> Figures:
    tools = int(size)
    with postgres_server(shared_buffers=options.buffers, max_wal_size="8GB") as server:
        index_s, index_cpu = _apart(_rebuilt, options, tools, server.url())
        figures, tens = _apart(_in_postgres, options, tools, server.url())
        expected: dict[str, list[Ten]] = {}
        if options.reference == "memory":
            expected = _apart(_in_memory, options, tools)[1]
        elif options.reference == "wide":
            expected = _apart(_widely, options, tools, server.url())
    for kind, found in figures["searches"].items() if expected else ():
        pairs = list(zip(tens[kind], expected[kind], strict=True))
        found["same"] = sum(_alike(*pair) for pair in pairs) / len(pairs)
    return {
        "tools": tools,
        "engine": "postgres",
        "index_s": index_s,
        "index_cpu_s": index_cpu,
    } | figures


def _rebuilt(options: argparse.Namespace, size: int, url: str) -> tuple[float, float]:
    catalogue = Catalogue(options.data, options.vectors)
    database = Database(url)
    database.run(schema.migrate)
    found = _timed(
        lambda: rebuild(database, "default", encoder().name, partial(catalogue.copies, size))
    )
    database.close()
    return found


def _in_postgres(
    options: argparse.Namespace, size: int, url: str
) -> tuple[Figures, dict[str, list[Ten]]]:
    catalogue = Catalogue(options.data, options.vectors)
    asked = questions(options.data, options.questions, catalogue, size)
    change = _changed_server(catalogue)
    del catalogue
    gc.collect()
    database, candidates, start_s = _opened(url)
    engine = SearchEngine(_profile(), semantic=candidates[1], elsewhere=candidates[0])
    search = _asynchronous(engine)
    tens, firsts = asyncio.run(_tens(search, asked))
    rss_mb = _rss_mb()
    copies = Catalogue(options.data, options.vectors).copies(min(size, LARGEST))
    baseline = numpy_baseline(vectors for _, vectors in copies)
    searched = asyncio.run(_searches(search, baseline, asked, firsts, options.repeats))
    changed = asyncio.run(_changes(url, candidates[0], *change))
    database.close()
    return {"start_s": start_s, "rss_mb": rss_mb, "searches": searched, **changed}, tens


def _widely(options: argparse.Namespace, size: int, url: str) -> dict[str, list[Ten]]:
    catalogue = Catalogue(options.data, options.vectors)
    asked = questions(options.data, options.questions, catalogue, size)
    database, candidates, _ = _opened(url, listed=WIDE)
    engine = SearchEngine(_profile(), semantic=candidates[1], elsewhere=candidates[0])
    tens, _ = asyncio.run(_tens(_asynchronous(engine), asked))
    database.close()
    return tens


def _changed_server(catalogue: Catalogue) -> tuple[list[Document], Vectors]:
    """Returns the tools of a server of usual size, with their vectors."""
    name = catalogue.tools[len(catalogue.tools) // 2].server
    rows = [row for row, tool in enumerate(catalogue.tools) if tool.server == name]
    return [catalogue.tools[row] for row in rows], catalogue.vectors[rows]


def _opened(
    url: str, listed: int = LISTED
) -> tuple[Database, tuple[DatabaseCandidates, SemanticSignal], float]:
    limit_heap()  # as a gateway does
    database = Database(url)
    database.open()
    feed = ChangeFeed(database, "default", url)
    semantic = SemanticSignal(bundled(), lambda: None)
    candidates = DatabaseCandidates(
        database,
        feed,
        "default",
        semantic=semantic,
        listed=listed,
    )
    start_s, _ = _timed(candidates.open)
    gc.freeze()  # as a gateway does once it is ready
    feed.start()
    return database, (candidates, semantic), start_s


async def _changes(
    url: str, candidates: DatabaseCandidates, tools: list[Document], vectors: Vectors
) -> Figures:
    """Times one changed tool, and until another gateway finds it."""
    other, (watching, _), _ = await asyncio.to_thread(_opened, url)
    written: list[float] = []
    seen: list[float] = []
    for number in range(5):
        text = f"Changed {number} by a zyqqx{number}."
        tools = [replace(tools[0], description=text), *tools[1:]]
        begin = time.perf_counter()
        known = {tool.id: row for tool, row in zip(tools, vectors, strict=True)}
        position = watching.position
        await candidates.replace_server(ServerTools(tools[0].server, tools, known))
        written.append(1e3 * (time.perf_counter() - begin))
        async with asyncio.timeout(SEEN_WITHIN_S):
            while watching.position == position:  # noqa: ASYNC110 - of another thread
                await asyncio.sleep(0.005)
        seen.append(1e3 * (time.perf_counter() - begin))
    await asyncio.to_thread(other.close)
    return {"changed_ms": statistics.median(written), "visible_ms": max(seen)}


def _asynchronous(engine: SearchEngine) -> Search:
    async def search(request: SearchRequest) -> SearchResult:
        plan = engine.plan(request)
        state = await engine.candidates.find(plan)
        return await asyncio.to_thread(engine.score, plan, state)

    return search


# Measuring


async def _tens(
    search: Search, asked: dict[str, list[SearchRequest]]
) -> tuple[dict[str, list[Ten]], dict[str, Figures]]:
    """Returns the first hits of questions, and how long each kind takes that is asked first.

    The first kind finds nothing in memory that earlier questions have left there.
    """
    tens: dict[str, list[Ten]] = {}
    firsts: dict[str, Figures] = {}
    for kind, requests in asked.items():
        tens[kind] = []
        times: list[float] = []
        for request in requests:
            begin = time.perf_counter()
            tens[kind].append(_ten(await search(request)))
            times.append(1e3 * (time.perf_counter() - begin))
        firsts[kind] = {"first_p50": statistics.median(times)}
    return tens, firsts


async def _searches(
    search: Search,
    baseline: Baseline,
    asked: dict[str, list[SearchRequest]],
    firsts: dict[str, Figures],
    repeats: int,
) -> dict[str, Figures]:
    """Times questions that were asked before; adds the figures of their ``firsts``."""
    figures: dict[str, Figures] = {}
    for kind, requests in asked.items():
        for request in requests:
            await baseline(request.text)
        times = np.empty((repeats, len(requests)))
        cpu, baselines = np.empty_like(times), np.empty_like(times)
        for repeat in range(repeats):
            for number, request in enumerate(requests):
                begin, used = time.perf_counter(), _cpu_s()
                await search(request)
                times[repeat, number] = 1e3 * (time.perf_counter() - begin)
                cpu[repeat, number] = 1e3 * (_cpu_s() - used)
                begin = time.perf_counter()
                await baseline(request.text)
                baselines[repeat, number] = 1e3 * (time.perf_counter() - begin)
        least = times.min(axis=0)
        figures[kind] = firsts[kind] | {
            "p50": float(np.median(times)),
            "p95": float(np.quantile(times, 0.95)),
            "least_p50": float(np.median(least)),
            "least_p95": float(np.quantile(least, 0.95)),
            "cpu_p50": float(np.median(cpu.min(axis=0))),
            "baseline_p50": float(np.median(baselines)),
            "times_baseline": float(np.median(times) / np.median(baselines)),
        }
    return figures


def _ten(result: SearchResult) -> Ten:
    return [(hit.document.id, hit.score) for hit in result.hits]


def _alike(found: Ten, expected: Ten) -> bool:
    """Whether the first ten are the same; what scores nearly alike may change places."""
    if len(found) != len(expected):
        return False
    pairs = zip(found, expected, strict=True)
    if any(abs(score - other) > TOLERANCE for (_, score), (_, other) in pairs):
        return False
    scores, least = dict(found), expected[-1][1] + TOLERANCE if expected else 0.0
    return all(score <= least or identifier in scores for identifier, score in expected)


def _profile() -> Any:
    return search_profile(OPTION["alpha"].default, FIRST, 0.0)


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the wall, and of processor time."""
    begin, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - begin, time.process_time() - used


def _cpu_s() -> float:
    """Processor time of this process, in seconds."""
    return time.process_time()


def _rss_mb() -> float:
    release_heap()  # as a gateway does twice a minute
    with suppress(OSError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))
    return float("nan")
