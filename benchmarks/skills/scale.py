"""Ten thousand skills: how soon they can be searched, how long a search takes, and an edit.

The files are the texts of `quality` over and over, each with a number in its name and text.
Their vectors are random, since embedding them takes many minutes and is done once in a
file's life; everything else is as it is. The application is started twice: first it reads,
cuts and takes apart every file; then it looks at every file's status, opens what is kept
of them and of their vectors, indexes the words, and loads the model for questions. Then it
is a gateway, without a server and with one to connect to, timed from the command on and
asked every 50 ms.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import numpy as np

from benchmarks.gateways import at_once, scripted, write
from benchmarks.skills.quality import questions, texts
from toolscript import bootstrap
from toolscript.app.application import App
from toolscript.config import settings
from toolscript.embedding.base import CachedVector
from toolscript.embedding.loader import Choice, identify
from toolscript.skills.scanner import SkillCatalogue, SkillScanner
from toolscript.types import SearchRequest

DIMENSIONS = 384
QUESTIONS = 100
PATIENCE_S = 60.0
TOOL = {"name": "read", "description": "Read a file.", "inputSchema": {"type": "object"}}


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._begun = time.perf_counter(), time.process_time()

    def clock(self) -> float:
        """As they passed."""
        return time.perf_counter() - self._begun[0]

    def processor(self) -> float:
        """As this process was busy, all threads together."""
        return time.process_time() - self._begun[1]


def measured(count: int) -> dict[str, float]:
    """The figures, in seconds or milliseconds as their names say."""
    with tempfile.TemporaryDirectory(prefix="toolscript-benchmark-") as name:
        home = Path(name)
        folder = home / ".agents" / "skills"
        _write(folder, count)
        (home / ".toolscript.json").write_text('{"mcpServers": {}}', "utf-8")
        catalogue = SkillScanner().scan([folder], SkillCatalogue())
        _prime(home, catalogue)
        return {
            "files": len(catalogue.skills),
            "passages": len(catalogue.documents),
            "the first start, vectors known, s": anyio.run(_first, home),
            **anyio.run(_running, home, folder),
            **_as_a_gateway(home, "a gateway", {}),
            **_as_a_gateway(home, "a gateway with a server", {"s": scripted(tools=[TOOL])}),
        }


def _write(folder: Path, count: int) -> None:
    written = [path.read_text("utf-8") for path in sorted(texts("notes").rglob("*.md"))]
    for number in range(count):
        text = written[number % len(written)].replace("\nname: ", f"\nname: n{number}-")
        path = folder / f"{number // 100:03}" / f"{number:05}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\nNumber {number}.\n", "utf-8")


def _settings(home: Path) -> settings.Settings:
    environ = {"HOME": str(home), "TOOLSCRIPT_SEARCH_MODEL": "bundled"}
    return settings.load_settings({"config": home / ".toolscript.json"}, environ)


def _application(home: Path) -> App:
    return bootstrap.application(_settings(home), environ={"HOME": str(home)})


def _prime(home: Path, catalogue: SkillCatalogue) -> None:
    """Vectors for every passage, in the cache that the application will open."""
    identity = identify(Choice("bundled"))
    if identity is None:
        raise SystemExit("the bundled model is not there")
    rows = np.random.default_rng(1).standard_normal((len(catalogue.documents), DIMENSIONS))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    semantic = _application(home).skills._semantic  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - its cache
    cache = semantic.cache()
    assert cache is not None  # noqa: S101 - nothing was said against it
    entries = {
        document.id: CachedVector(document.digest, row)
        for document, row in zip(catalogue.documents, rows, strict=True)
    }
    cache.save(identity.name, entries)


async def _first(home: Path) -> float:
    """How long a start takes that has to read and take apart everything, and keeps it."""
    watch = Stopwatch()
    app = _application(home)
    async with app.running():
        await app.skills.feed.changed(None)
        await app.skills.settled()
        return watch.clock()


def _as_a_gateway(home: Path, what: str, servers: Mapping[str, Any]) -> dict[str, float]:
    """How long after the command something is found, and everything searched."""
    config = home / "gateway.json"
    write(config, json.dumps({"mcpServers": servers}))
    own = {"HOME": str(home), "TOOLSCRIPT_CONFIG": str(config)}
    watch, words = Stopwatch(), 0.0
    with (
        at_once(home / ".toolscript", None, **own, TOOLSCRIPT_SEARCH_MODEL="bundled") as started,
        httpx2.Client(base_url=started.url, timeout=60) as http,
    ):
        while watch.clock() < PATIENCE_S:
            answer = http.get("/skills/search", params={"q": "bake bread", "threshold": 0}).json()
            words = words or (watch.clock() if answer["results"] else 0.0)
            if answer["results"] and not answer["degraded"]:
                return {
                    f"{what}: found by words, s": words,
                    f"{what}: everything searched, s": watch.clock(),
                }
            time.sleep(0.05)
    raise SystemExit(f"not within {PATIENCE_S:g} s: the skills are searched")


async def _running(home: Path, folder: Path) -> dict[str, float]:
    watch = Stopwatch()
    app = _application(home)
    async with app.running():
        await app.skills.feed.changed(None)
        listed = watch.clock()
        await _indexed(app)
        found = watch.clock()
        await app.skills.settled()
        ready, busy = watch.clock(), watch.processor()
        await app.skills.search(SearchRequest(text="warm up"))
        return {
            "start: listed, s": listed,
            "start: searched by words, s": found,
            "start: everything searched, s": ready,
            "start: processor, s": busy,
            **await _asked(app, "search"),
            **await _asked(app, "asked again"),
            **await _until_followed(app, folder),
        }


async def _asked(app: App, what: str) -> dict[str, float]:
    """How long a hundred questions take each, by the clock, and what they take of one thread."""
    asked = [SearchRequest(text=text) for text, _ in questions("notes")[:QUESTIONS]]
    times = [await anyio.to_thread.run_sync(_timed, app, request) for request in asked]
    clock, processor = zip(*times, strict=True)
    return {
        f"{what}: p50, ms": statistics.median(clock) * 1e3,
        f"{what}: p95, ms": float(np.quantile(clock, 0.95)) * 1e3,
        f"{what}: processor p50, ms": statistics.median(processor) * 1e3,
    }


def _timed(app: App, request: SearchRequest) -> tuple[float, float]:
    begun = time.perf_counter(), time.thread_time()
    app.skills.index.engine.search(request)
    return time.perf_counter() - begun[0], time.thread_time() - begun[1]


async def _indexed(app: App) -> None:
    """Wait until something can be found."""
    while not (app.skills.report().stats or {})["passages"]:  # noqa: ASYNC110 - the engine tells nobody
        await anyio.sleep(0.001)


async def _until_followed(app: App, folder: Path) -> dict[str, float]:
    """How long an added, an edited and a deleted file take to be found, or not any more."""
    path = folder / "new.md"
    word, other = "Quetzalcoatlus", "Archaeopteryx"
    return {
        **await _seen(app, "added", lambda: path.write_text(f"The {word} flew.", "utf-8"), word, 1),
        **await _seen(
            app, "edited", lambda: path.write_text(f"The {other} ran.", "utf-8"), other, 1
        ),
        **await _seen(app, "deleted", path.unlink, other, 0),
    }


async def _seen(
    app: App, what: str, change: Callable[[], object], word: str, count: int
) -> dict[str, float]:
    await app.skills.settled()
    await anyio.sleep(1)  # so that the watcher is at rest
    watch = Stopwatch()
    change()
    clock = 0.0
    while clock < 30:
        result = await app.skills.search(SearchRequest(text=word, threshold=0.0, limit=1))
        clock = watch.clock()
        if len([hit for hit in result.hits if word in hit.document.description]) == count:
            break
        await anyio.sleep(0.05)
    await app.skills.settled()
    return {f"{what}, s": clock, f"{what}: processor until all is done, s": watch.processor()}
