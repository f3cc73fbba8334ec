"""Ten thousand skills: how soon they can be searched, how long a search takes, and an edit.

The files are the texts of `quality` over and over, each with a number in its name and text.
Their vectors are random, since embedding them takes many minutes and is done once in a
file's life; everything else is as it is: the folder is walked, each file opened, read,
cut, the vectors opened from the cache, the words indexed, the model loaded for questions.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import numpy as np

from benchmarks.skills.quality import questions, texts
from toolscript import bootstrap, settings
from toolscript.app import App
from toolscript.embedding.cache import CachedVector
from toolscript.embedding.loader import Choice, foresee
from toolscript.skills.library import Library, Shelf
from toolscript.types import SearchRequest

DIMENSIONS = 384
QUESTIONS = 100


def measured(count: int) -> dict[str, float]:
    """The figures, in seconds or milliseconds as their names say."""
    with tempfile.TemporaryDirectory(prefix="toolscript-benchmark-") as name:
        home = Path(name)
        folder = home / ".agents" / "skills"
        _write(folder, count)
        (home / ".toolscript.json").write_text('{"mcpServers": {}}', "utf-8")
        begun = time.perf_counter()
        shelf = Library().look([folder], Shelf())
        first = time.perf_counter() - begun
        _prime(home, shelf)
        return {
            "files": len(shelf.skills),
            "passages": len(shelf.documents),
            "reading every file for the first time, s": first,
            **anyio.run(_running, home, folder),
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
    return settings.load({"config": home / ".toolscript.json"}, environ)


def _application(home: Path) -> App:
    return bootstrap.application(_settings(home), environ={"HOME": str(home)})


def _prime(home: Path, shelf: Shelf) -> None:
    """Vectors for every passage, in the cache that the application will open."""
    foreseen = foresee(Choice("bundled"))
    if foreseen is None:
        raise SystemExit("the bundled model is not there")
    rows = np.random.default_rng(1).standard_normal((len(shelf.documents), DIMENSIONS))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    cache = _application(home).handbook.cache()
    assert cache is not None  # noqa: S101 - nothing was said against it
    entries = {
        document.id: CachedVector(document.digest, row)
        for document, row in zip(shelf.documents, rows, strict=True)
    }
    cache.save(foreseen.name, entries)


async def _running(home: Path, folder: Path) -> dict[str, float]:
    begun = time.perf_counter()
    app = _application(home)
    async with app.running():
        await app.handbook.changed(app.handbook.shelf)
        listed = time.perf_counter() - begun
        await _indexed(app)
        found = time.perf_counter() - begun
        await app.handbook.settled()
        ready = time.perf_counter() - begun
        await app.search_skills(SearchRequest(text="warm up"))
        asked = [text for text, _ in questions("notes")[:QUESTIONS]]
        times = [await _timed(app, text) for text in asked]
        again = [await _timed(app, text) for text in asked]
        edited = await _until_followed(app, folder)
        return {
            "start: listed, s": listed,
            "start: searched by words, s": found,
            "start: everything searched, s": ready,
            "search p50, ms": statistics.median(times) * 1e3,
            "search p95, ms": float(np.quantile(times, 0.95)) * 1e3,
            "asked again p50, ms": statistics.median(again) * 1e3,
            **edited,
        }


async def _indexed(app: App) -> None:
    """Wait until something can be found."""
    while not app.handbook.stats()["passages"]:  # noqa: ASYNC110 - the engine tells nobody
        await anyio.sleep(0.001)


async def _timed(app: App, text: str) -> float:
    begun = time.perf_counter()
    await app.search_skills(SearchRequest(text=text))
    return time.perf_counter() - begun


async def _until_followed(app: App, folder: Path) -> dict[str, float]:
    """How long an added, an edited and a deleted file take to be found, or not any more."""
    path = folder / "new.md"
    word = "Quetzalcoatlus"
    added = await _seen(app, lambda: path.write_text(f"The {word} flew.", "utf-8"), word, 1)
    edited = await _seen(app, lambda: path.write_text("The Archaeopteryx ran.", "utf-8"), word, 0)
    there = await _seen(app, lambda: None, "Archaeopteryx", 1)
    deleted = await _seen(app, path.unlink, "Archaeopteryx", 0)
    return {"added, s": added, "edited, s": edited + there, "deleted, s": deleted}


async def _seen(app: App, change: Callable[[], object], word: str, count: int) -> float:
    await anyio.sleep(1)  # so that the watcher is at rest
    begun = time.perf_counter()
    change()
    while time.perf_counter() - begun < 30:
        result = await app.search_skills(SearchRequest(text=word, threshold=0.0, limit=1))
        hits = [hit for hit in result.hits if word in hit.document.description]
        if len(hits) == count:
            break
        await anyio.sleep(0.01)
    return time.perf_counter() - begun
