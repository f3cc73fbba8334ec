"""The embedding cache: how fast it opens, how large it is, and whether it survives.

    python -m benchmarks.cache [--tools 500 14191] [--kills 200] [--processes 8] [--json FILE]

*Opening* is what a process does that finds everything cached: what the model
would be is read from its files, the cache is opened, and the index is made; the
model, which a process loads meanwhile, is left out. *Kills*: a process indexes and
saves, and is killed with SIGKILL at a random moment, again and again; each time the
file must be whole, and the next process must embed only what was not saved.
*Processes*: so many index the same tools at once; afterwards nothing may be missing.
"""

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from toolscript.embedding.base import CachedVector
from toolscript.embedding.loader import Choice, LazyModel, Loaded, identify, lazy
from toolscript.embedding.vector_cache import SqliteVectorCache
from toolscript.retrieval.base import Corpus
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import Document

CHOICE = Choice("bundled", threads=1)
REPETITIONS = 9
DIMENSIONS = 384


def documents(count: int) -> list[Document]:
    """Short tools: what is embedded does not matter here."""
    return [
        Document(id=f"s__t{n:05}", server="s", name=f"t{n:05}", digest=f"{n:064}")
        for n in range(count)
    ]


def signal(directory: Path, model: LazyModel | None = None) -> SemanticSignal:
    """A signal as a new process would make it, which saves after every batch."""
    return SemanticSignal(
        model or lazy(CHOICE), lambda: SqliteVectorCache(directory / "bench.sqlite"), save_every_s=0
    )


def main() -> None:
    """Measure, print, write."""
    if sys.argv[1:2] == ["--index"]:
        _index(Path(sys.argv[2]), int(sys.argv[3]))
        return
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="toolscript-benchmark-") as name:
        opened = [_opened(Path(name, f"open-{count}"), count) for count in arguments.tools]
        killed = _killed(Path(name, "kills"), arguments.kills, arguments.documents)
        shared = _shared(Path(name, "shared"), arguments.processes, arguments.documents)
    report.table(["tools", "opens in ms", "MB"], [_row(o) for o in opened])
    print(f"\nkills: {killed}\nprocesses at once: {shared}")
    meta = report.meta(repetitions=REPETITIONS)
    report.write(
        arguments.json, {"meta": meta, "opened": opened, "killed": killed, "shared": shared}
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the embedding cache.")
    parser.add_argument("--tools", type=int, nargs="+", default=[500, 14_191])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def _opened(directory: Path, count: int) -> dict[str, Any]:
    name = _name()
    rows = np.random.default_rng(1).standard_normal((count, DIMENSIONS)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    tools = documents(count)
    cache = SqliteVectorCache(directory / "bench.sqlite")
    cache.save(
        name,
        {tool.id: CachedVector(tool.digest, row) for tool, row in zip(tools, rows, strict=True)},
    )
    corpus = Corpus(tools)
    times = [_open_once(directory, corpus) for _ in range(REPETITIONS + 1)][1:]
    median = round(statistics.median(times) * 1000, 1)
    return {"tools": count, "median_ms": median, "bytes": cache.path.stat().st_size}


def _open_once(directory: Path, corpus: Corpus) -> float:
    model = LazyModel(lambda: Loaded(None), lambda: identify(CHOICE))
    begun = time.perf_counter()
    made = signal(directory, model)
    waiting = next(iter(made.prepare(corpus)))
    made.index(corpus)
    took = time.perf_counter() - begun
    _check(waiting == 0, "everything was cached")
    return took


def _name() -> str:
    identity = identify(CHOICE)
    if identity is None:
        raise SystemExit("the bundled model is not there")
    return identity.name


def _check(fulfilled: bool, what: str) -> None:  # noqa: FBT001 - reads best
    if not fulfilled:
        raise SystemExit(f"not so: {what}")


def _row(opened: dict[str, Any]) -> list[str]:
    size = f"{opened['bytes'] / 1e6:.1f}"
    return [f"{opened['tools']:,}", f"{opened['median_ms']:.0f}", size]


def _killed(directory: Path, kills: int, count: int) -> dict[str, int]:
    """Kill an indexing process at random moments; whatever it leaves has to be whole."""
    chance = random.Random(7)  # noqa: S311 - no secret
    name = _name()
    cache = SqliteVectorCache(directory / "bench.sqlite")
    before: set[str] = set()
    whole = midway = 0
    for _ in range(kills):
        process = _start(directory, count)
        time.sleep(chance.uniform(0.2, 1.6))
        process.kill()
        process.wait()
        found = set(cache.load(name))
        _check(before <= found, f"none of {len(before)} entries was lost")
        whole += 1
        midway += 0 < len(found) < count
        before = found
        if len(found) == count:  # all saved: begin again
            for path in directory.iterdir():
                path.unlink()
            before.clear()
    made = signal(directory)
    for _ in made.prepare(Corpus(documents(count))):
        pass
    counters = made.counters
    _check(counters.documents_embedded == count - len(before), "only what was not saved")
    return {
        "kills": kills,
        "whole": whole,
        "midway": midway,
        "savedBeforeTheLast": len(before),
        "embeddedByTheLast": counters.documents_embedded,
    }


def _shared(directory: Path, processes: int, count: int) -> dict[str, int]:
    name = _name()
    running = [_start(directory, count) for _ in range(processes)]
    codes = [process.wait() for process in running]
    found = SqliteVectorCache(directory / "bench.sqlite").load(name)
    _check(codes == [0] * processes, "every process ended well")
    _check(len(found) == count, "nothing is missing")
    return {"processes": processes, "entries": len(found), "expected": count}


def _start(directory: Path, count: int) -> "subprocess.Popen[bytes]":
    command: Sequence[str] = (
        *(sys.executable, "-m", "benchmarks.cache"),
        *("--index", str(directory), str(count)),
    )
    return subprocess.Popen(command)


def _index(directory: Path, count: int) -> None:
    for _ in signal(directory).prepare(Corpus(documents(count))):
        pass


if __name__ == "__main__":
    main()
