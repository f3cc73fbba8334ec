"""The wired application over a snapshot: the real model and cache, and no server."""

import hashlib
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest

from toolscript.app.application import App
from toolscript.bootstrap import Wiring, application
from toolscript.config import locations, settings
from toolscript.config import servers as configuration
from toolscript.errors import ConfigMissingError
from toolscript.gateway.catalogue import Catalogue, ServerEntry
from toolscript.gateway.snapshot import SnapshotStore
from toolscript.types import SearchRequest, SearchResult, ToolSpec

T = TypeVar("T")


class Place:
    """A directory with a configuration, and a snapshot as a gateway would have left it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environ = {"HOME": str(home), "TOOLSCRIPT_SEARCH_MODEL": "bundled"}

    def know(self, tools: tuple[ToolSpec, ...]) -> None:
        """Configure the servers of these tools and remember the tools."""
        names = sorted({tool.server for tool in tools})
        servers = {name: {"command": "no-such-program"} for name in names}
        path = self.home / locations.FILE_NAME
        path.write_text(json.dumps({"mcpServers": servers}))
        config = configuration.load_config(None, self.home, self.environ)
        entries = [
            ServerEntry(
                name=spec.name,
                digest=spec.digest,
                state="ready",
                tools=tuple(tool for tool in tools if tool.server == spec.name),
            )
            for spec in config.servers
        ]
        data = settings.load_settings({}, self.environ).paths.data_dir
        SnapshotStore(data / "cache" / "catalogue", config.key).save(Catalogue.of(entries))

    def application(self, **flags: object) -> App:
        config = configuration.load_config(None, self.home, self.environ)
        found = settings.load_settings(flags, self.environ)
        return application(found, config, Wiring(start="needed"), self.environ)

    def use(self, what: Callable[[App], Awaitable[T]], **flags: object) -> T:
        """What an application that has indexed everything answers."""

        async def act() -> T:
            with anyio.fail_after(60):
                async with self.application(**flags).running() as app:
                    while not app.health().ready:  # noqa: ASYNC110 - as a client would, by asking
                        await anyio.sleep(0.001)
                    return await what(app)

        return anyio.run(act)

    def search(self, text: str, **flags: object) -> SearchResult:
        return self.use(lambda app: app.search(SearchRequest(text=text)), **flags).result

    def stats(self, **flags: object) -> dict[str, Any]:
        async def ask(app: App) -> dict[str, Any]:
            await app.search(SearchRequest(text="read a file"))
            return app.stats()

        return self.use(ask, **flags)

    @property
    def files(self) -> list[Path]:
        return sorted(path for path in self.home.rglob("embeddings-*.json"))


@pytest.fixture
def place(tmp_path: Path, tools: tuple[ToolSpec, ...]) -> Place:
    made = Place(tmp_path)
    made.know(tools)
    return made


def name_of(*servers: str) -> str:
    compact = json.dumps(sorted(servers), separators=(",", ":"))
    return f"embeddings-{hashlib.sha256(compact.encode()).hexdigest()[:16]}.json"


def keys_in(cache: Path) -> set[str]:
    return {*json.loads(cache.read_bytes())["embeddings"]}


NAMES = ("fetch", "filesystem", "git", "memory", "time")


@pytest.mark.requirement("cache:place", "cache:name")
def test_the_embedding_cache_is_in_the_home_directory_named_by_the_servers(place: Place) -> None:
    assert place.stats()["documentsEmbedded"] == 24
    assert place.files == [place.home / ".toolscript" / "cache" / "embeddings" / name_of(*NAMES)]


@pytest.mark.requirement("cache:place")
@pytest.mark.parametrize("by", ["flag", "environment"])
def test_the_data_directory_moves_it(
    place: Place, tools: tuple[ToolSpec, ...], tmp_path: Path, by: str
) -> None:
    moved = tmp_path / "not" / "there" / "yet"
    place.environ["TOOLSCRIPT_DATA_DIR"] = str(moved)
    place.know(tools)
    if by == "flag":
        del place.environ["TOOLSCRIPT_DATA_DIR"]
        place.search("read a file", data_dir=moved)
    else:
        place.search("read a file")
    assert place.files == [moved / "cache" / "embeddings" / name_of(*NAMES)]


@pytest.mark.requirement("search:stats", "cache:incremental")
def test_what_was_embedded_once_is_read_from_the_cache(place: Place) -> None:
    first, second = place.stats(), place.stats()
    assert (first["documentsEmbedded"], first["documentsFromCache"]) == (24, 0)
    assert (second["documentsEmbedded"], second["documentsFromCache"]) == (0, 24)
    assert (first["cacheHitRate"], second["cacheHitRate"]) == (0.0, 1.0)
    assert second["toolsIndexed"] == second["embeddingsCached"] == 24


@pytest.mark.requirement("cache:validity")
def test_a_changed_tool_alone_is_embedded_again(place: Place, tools: tuple[ToolSpec, ...]) -> None:
    place.stats()
    first, *others = tools
    changed = ToolSpec(server=first.server, name=first.name, description="Something else.")
    place.know((changed, *others[:-1]))
    stats = place.stats()
    assert (stats["documentsEmbedded"], stats["documentsFromCache"]) == (1, 22)
    assert len(keys_in(place.files[0])) == 23


@pytest.mark.requirement("cache:off")
def test_without_the_cache_nothing_is_written(place: Place) -> None:
    place.environ["TOOLSCRIPT_SEARCH_NO_CACHE"] = "true"
    assert place.search("read a file").hits
    assert place.files == []
    assert not (place.home / ".toolscript" / "cache" / "embeddings").exists()


@pytest.mark.requirement("cache:off")
def test_without_the_cache_nothing_is_read(place: Place) -> None:
    place.search("read a file")
    [path] = place.files
    before = path.stat()
    place.environ["TOOLSCRIPT_SEARCH_NO_CACHE"] = "true"
    stats = place.stats()
    assert (stats["documentsEmbedded"], stats["documentsFromCache"]) == (24, 0)
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert path.stat().st_ino == before.st_ino


@pytest.mark.requirement("search:rank")
def test_a_question_is_answered_from_the_snapshot_with_no_server(place: Place) -> None:
    result = place.search("download a web page")
    assert result.hits[0].document.id == "fetch__fetch"
    assert result.degraded == ()
    assert (result.limit, result.threshold) == (3, 0.35)


@pytest.mark.requirement("search:fusion", "search:threshold", "search:limit")
def test_limit_threshold_and_alpha_come_from_the_settings(place: Place) -> None:
    place.environ |= {"TOOLSCRIPT_SEARCH_LIMIT": "5", "TOOLSCRIPT_SEARCH_THRESHOLD": "0.01"}
    place.environ["TOOLSCRIPT_SEARCH_ALPHA"] = "0.25"
    result = place.search("rename a document")
    assert len(result.hits) == 5
    assert (result.limit, result.threshold) == (5, 0.01)
    best = result.hits[0]
    expected = 0.25 * best.signals["semantic"] + 0.75 * best.signals["fuzzy"]
    assert best.score == pytest.approx(expected, abs=2e-6)
    assert place.search("rename a document", limit=2).limit == 2


@pytest.mark.requirement("model:lazy")
def test_nothing_is_loaded_by_wiring(place: Place) -> None:
    stats = place.application().stats()
    assert (stats["modelLoaded"], stats["device"], stats["toolsIndexed"]) == (False, None, 0)
    assert str(stats["model"]).startswith("toolscript-minilm-l6@")  # its files say that much
    assert place.files == []


@pytest.mark.requirement("search:stats", "model:bundled")
def test_the_statistics_say_what_answers(place: Place) -> None:
    stats = place.stats()
    assert stats["model"].startswith("toolscript-minilm-l6@")
    assert stats["signals"] == ["semantic", "fuzzy"]
    assert (stats["device"], stats["degraded"]) == ("cpu", None)


@pytest.mark.requirement("search:stats", "model:lazy")
def test_a_question_asked_twice_is_embedded_once(place: Place) -> None:
    async def ask(app: App) -> dict[str, Any]:
        for text in ("read a file", "read a file", "read a file", "send mail"):
            await app.search(SearchRequest(text=text))
        return app.stats()

    assert place.use(ask)["queryCacheHitRate"] == 0.5


@pytest.mark.requirement("search:degraded", "model:bundled")
@pytest.mark.parametrize(
    ("fallback", "signals", "found"),
    [("bundled", ["semantic", "fuzzy"], True), ("fuzzy", ["fuzzy"], False)],
)
def test_a_model_that_is_not_there_is_replaced_as_the_settings_say(
    place: Place,
    caplog: pytest.LogCaptureFixture,
    fallback: str,
    signals: list[str],
    *,
    found: bool,
) -> None:
    place.environ["TOOLSCRIPT_SEARCH_MODEL"] = "ollama://127.0.0.1:9/gone"
    place.environ["TOOLSCRIPT_SEARCH_FALLBACK"] = fallback

    async def ask(app: App) -> tuple[list[SearchResult], dict[str, Any]]:
        texts = ("download a web page", "read_file", "read_file")
        answers = [await app.search(SearchRequest(text=text)) for text in texts]
        return [found.result for found in answers], app.stats()

    with caplog.at_level(logging.WARNING):
        results, stats = place.use(ask)
    assert all(len(result.degraded) == 1 for result in results)
    assert all("127.0.0.1:9" in result.degraded[0] for result in results)
    assert stats["signals"] == signals
    assert stats["degraded"] in results[0].degraded[0]
    assert bool(results[0].hits) is found
    assert results[1].hits[0].document.id == "filesystem__read_file"
    assert len([r for r in caplog.records if "127.0.0.1:9" in r.getMessage()]) == 1


@pytest.mark.requirement("config:file")
def test_without_a_configuration_there_is_no_application(tmp_path: Path) -> None:
    found = settings.load_settings({"config": tmp_path / "gone.json"}, {"HOME": str(tmp_path)})
    with pytest.raises(ConfigMissingError, match="does not exist"):
        application(found, environ={"HOME": str(tmp_path)})
