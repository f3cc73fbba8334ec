"""Faults of a signal: a search that does not end is ended, one that cannot index is told."""

import inspect
from pathlib import Path

import anyio
import pytest

from tests.encoders import Narrow
from tests.signals import Broken, Stuck, signal_of
from tests.support import no_skills, unused_pins
from toolscript import bootstrap
from toolscript.app.application import App
from toolscript.app.result_store import ResultStore
from toolscript.app.stores import LocalStores
from toolscript.app.tool_feed import ToolFeed
from toolscript.config.servers import Config
from toolscript.config.settings import CallSettings
from toolscript.embedding.base import Encoder
from toolscript.embedding.loader import LazyModel, Loaded, load_model
from toolscript.errors import SearchTimeoutError
from toolscript.gateway.base import Connect
from toolscript.gateway.catalogue import Catalogue, ServerEntry
from toolscript.gateway.gateway import Gateway
from toolscript.gateway.run_policy import RunPolicy
from toolscript.gateway.snapshot import SnapshotStore
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.live_index import SEARCH_TIMEOUT_S, LiveIndex
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import SearchRequest, ServerSpec, ToolSpec


def no_connection() -> Connect:
    raise AssertionError("nothing is to be connected to")


def application(signal: SemanticSignal, tmp_path: Path, model: LazyModel | None = None) -> App:
    spec = ServerSpec(name="files", transport="stdio", command="files")
    tool = ToolSpec(server="files", name="read_file")
    known = ServerEntry(name="files", digest=spec.digest, state="ready", tools=(tool,))
    config = Config((tmp_path / "config.json",), (spec,))
    gateway = Gateway(
        config,
        Catalogue.of([known]),
        no_connection,
        unused_pins(),
        policy=RunPolicy("needed"),
    )
    model = model or LazyModel(lambda: load_model("bundled", "bundled", 1))
    semantic = SemanticSignal(model, lambda: None)
    engine = SearchEngine(search_profile(0.7, 3, 0.0), semantic=signal)
    feed = ToolFeed(gateway, SnapshotStore(tmp_path, config.key))
    return App(
        gateway,
        LiveIndex(engine, feed, search_timeout_s=0.2),
        semantic,
        no_skills(tmp_path),
        LocalStores(tmp_path, config.key),
        calls=CallSettings(approval_timeout_s=1),
        results=ResultStore(tmp_path / "results"),
    )


@pytest.mark.requirement("search:timeout")
def test_a_search_that_takes_too_long_is_a_clear_error_and_the_next_one_is_answered(
    tmp_path: Path,
) -> None:
    encoder = Stuck()

    async def scenario() -> int:
        async with application(signal_of(encoder), tmp_path).running() as app:
            await app.ready()
            with pytest.raises(SearchTimeoutError, match=r"longer than 0\.2 s"):
                await app.search(SearchRequest(text="read"))
            encoder.released.set()
            return len((await app.search(SearchRequest(text="read"))).hits)

    assert anyio.run(scenario) == 1


@pytest.mark.requirement("search:timeout")
def test_a2_a_search_has_ten_seconds() -> None:
    """search:timeout: the seed's number; and no wiring gives it another."""
    given = inspect.signature(LiveIndex).parameters["search_timeout_s"].default
    assert given == SEARCH_TIMEOUT_S == 10
    assert "search_timeout" not in inspect.getsource(bootstrap)


@pytest.mark.requirement("search:stats")
def test_a12_the_device_is_what_the_model_says(tmp_path: Path, encoder: Encoder) -> None:
    """search:stats: and none is named before there is a model."""
    model = LazyModel(lambda: Loaded(Narrow(encoder, 0.1, device="npu")))
    app = application(signal_of(Stuck()), tmp_path, model)
    assert app.stats()["device"] is None
    model.get()
    assert app.stats()["device"] == "npu"


def test_a_fault_while_indexing_is_told_and_hangs_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> tuple[str, ...]:
        async with application(signal_of(Broken()), tmp_path).running() as app:
            await app.ready()
            return (await app.search(SearchRequest(text="read"))).result.degraded

    [*_, told] = anyio.run(scenario)
    assert told == "index: out of date (RuntimeError: out of order)"
    assert "the tools could not be indexed" in caplog.text
