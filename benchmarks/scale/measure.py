"""Index time, memory, changes and searches by the number of tools.

    python -m benchmarks.scale --data DIR [--tools 14191,100000,1000000] [--vectors FILE]
        [--questions 40] [--repeats 3] [--json FILE]

The tools are copies: see `benchmarks.scale.catalogue`. *First p50* is of questions that are asked
for the first time, *p50* and *p95* of all repeats, *least* of the least of each question's repeats.
Questions are embedded beforehand: that is the same for any number of tools.
"""

import argparse
import ctypes
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

from benchmarks import report
from benchmarks.quality import datasets
from benchmarks.quality.own import bundled, encoder
from benchmarks.scale.catalogue import Catalogue, questions
from toolscript.config.settings import OPTION
from toolscript.embedding.base import CachedVector
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.surfaces.server.process_memory import keep_heap_small
from toolscript.types import Document, SearchRequest

FIRST = 10
Figures = dict[str, Any]
Work = Callable[[], object]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale")
    add = parser.add_argument
    add("--data", type=Path, required=True, metavar="DIR", help="folder of the dataset folders")
    add("--tools", default="14191,100000", metavar="N,M", help="how many tools")
    add("--vectors", type=Path, metavar="FILE", help="keeps the tools' vectors")
    add("--questions", type=int, default=40, metavar="N", help="of each kind")
    add("--repeats", type=int, default=3, metavar="N", help="how often each is asked")
    add("--json", type=Path, metavar="FILE", help="write all figures there too")
    options = parser.parse_args(arguments)
    try:
        rows = [_apart(_measure, options, int(size)) for size in options.tools.split(",")]
    except datasets.DataError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    _print(rows)
    report.write(options.json, {"meta": report.meta(load=os.getloadavg()), "results": rows})
    return 0


def _print(rows: list[Figures]) -> None:
    names = ("index_s", "changed_ms", "rss_mb")
    table = [[f"{row['tools']:,}", *(f"{row[name]:.2f}" for name in names)] for row in rows]
    report.table(["tools", *names], table)
    print()
    keys = ("first p50", "p50", "p95", "least p50", "least p95", "CPU p50")
    table = [
        [f"{row['tools']:,}", kind, *(f"{found[key]:.2f}" for key in keys)]
        for row in rows
        for kind, found in row["searches"].items()
    ]
    report.table(["tools", "questions", *keys], table)


def _apart(work: Callable[..., Figures], *arguments: Any) -> Figures:
    """Returns what ``work`` returns in a process of its own, so that memory can be told apart."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def _measure(options: argparse.Namespace, size: int) -> Figures:
    keep_heap_small()  # as a gateway does
    catalogue = Catalogue(options.data, options.vectors)
    documents: list[Document] = []
    vectors: dict[str, CachedVector] = {}
    for batch, rows in catalogue.copies(size):
        documents.extend(batch)
        for document, row in zip(batch, rows, strict=True):
            vectors[document.id] = CachedVector(document.digest, row)
    semantic = SemanticSignal(bundled(), lambda: None)
    semantic.take(encoder().name, vectors)
    profile = search_profile(OPTION["alpha"].default, FIRST, 0.0)
    engine = SearchEngine(profile, semantic=semantic)
    index_s = _seconds(lambda: engine.update(documents))
    asked = questions(options.data, options.questions, catalogue, size)
    searches = _searches(engine, asked, options.repeats)
    changes: list[float] = []
    for number in range(options.repeats):
        documents[-1 - number] = replace(documents[-1 - number], description=f"Changed {number}.")
        changes.append(_seconds(lambda: engine.update(documents)))
    return {
        "tools": size,
        "index_s": index_s,
        "changed_ms": 1e3 * min(changes),
        "rss_mb": _rss_mb(),
        "searches": searches,
    }


def _searches(engine: SearchEngine, asked: dict[str, list[SearchRequest]], repeats: int) -> Figures:
    """Returns the times of questions, by kind."""
    figures: Figures = {}
    for request in asked["question"]:
        engine.search(replace(request, limit=1))  # the model is loaded, the question embedded
    for kind, requests in asked.items():
        for request in requests:
            encoder().query(request.text)
        firsts = [1e3 * _seconds(lambda each=each: engine.search(each)) for each in requests]
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
    return figures


def _seconds(work: Work) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _rss_mb() -> float:
    with suppress(OSError, AttributeError):  # there are other systems, and libraries
        ctypes.CDLL(None).malloc_trim(0)  # as a gateway does twice a minute
    with suppress(OSError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))
    return float("nan")
