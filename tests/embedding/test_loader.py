import logging
import re
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support import until
from toolscript.embedding.loader import BUNDLED_FOLDER, LazyModel, Loaded, ModelIdentity, load_model
from toolscript.errors import UnsuitableModelError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The bundled model as a user's own folder."""
    made = tmp_path / "toolscript-minilm-l6"
    shutil.copytree(BUNDLED_FOLDER, made)
    return made


@pytest.mark.requirement("model:bundled")
def test_the_bundled_model_is_loaded_with_no_network_and_no_download() -> None:
    loaded = load_model("bundled", "bundled", 1)
    assert loaded.encoder is not None
    assert loaded.encoder.model == "toolscript-minilm-l6"
    assert loaded.encoder.dim == 384
    assert not loaded.degraded


@pytest.mark.requirement("model:select")
def test_a_folder_in_the_hubs_layout_is_loaded(folder: Path) -> None:
    loaded = load_model(str(folder), "fuzzy", 1)
    bundled = load_model("bundled", "bundled", 1)
    assert loaded.encoder is not None
    assert bundled.encoder is not None
    assert loaded.encoder.name == bundled.encoder.name
    assert not loaded.degraded


IMPOSSIBLE = ["no/such/folder", "~no-such-user/model", "x" * 5000, "a\0b", ""]


@pytest.mark.requirement("model:select")
@pytest.mark.parametrize("fallback", ["bundled", "fuzzy"])
@pytest.mark.parametrize("model", IMPOSSIBLE)
def test_no_other_model_stands_in_for_one_that_cannot_be(model: str, fallback: str) -> None:
    with pytest.raises(
        UnsuitableModelError, match=re.escape(repr(model)[1:60]) if model else "config"
    ):
        load_model(model, fallback, 1)


@pytest.mark.requirement("model:select")
def test_what_is_missing_in_a_folder_is_in_the_reason(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    with pytest.raises(UnsuitableModelError, match=r"has no tokenizer\.json"):
        load_model(str(folder), "fuzzy", 1)


@pytest.mark.requirement("model:select")
def test_a_folder_of_any_name_is_read_as_its_files_say(folder: Path) -> None:
    other = folder.rename(folder.with_name("my-model"))
    found, bundled = (
        load_model(str(other), "fuzzy", 1).encoder,
        load_model("bundled", "fuzzy", 1).encoder,
    )
    assert found is not None
    assert bundled is not None
    assert found.model == "my-model"
    assert (found.query("read a file") == bundled.query("read a file")).all()


@pytest.mark.requirement("model:lazy")
def test_nothing_is_loaded_before_it_is_needed_and_then_once_for_all_threads() -> None:
    calls: list[int] = []
    together = threading.Barrier(8)

    def slow() -> Loaded:
        calls.append(1)
        threading.Event().wait(0.05)  # long enough for the other threads to come
        return Loaded(None, "")

    lazy = LazyModel(slow)
    assert lazy.loaded is None
    assert not calls

    def need(_: int) -> Loaded:
        together.wait()
        return lazy.get()

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(need, range(8)))
    assert calls == [1]
    assert all(loaded is lazy.loaded for loaded in found)


def test_another_thread_begins_to_load_what_is_on_this_machine() -> None:
    """model:lazy: what would have to be downloaded waits until it is needed."""
    threads: list[str] = []

    def load_it() -> Loaded:
        threads.append(threading.current_thread().name)
        return Loaded(None, "")

    LazyModel(load_it).begin()
    assert not threads
    there = LazyModel(load_it, lambda: ModelIdentity("m"))
    there.begin()
    until(lambda: there.loaded, "it is loaded")
    there.begin()
    assert there.get() is there.loaded
    assert threads == ["model"]


def test_that_a_model_is_missing_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    lazy = LazyModel(lambda: load_model("ollama://127.0.0.1:9/mini", "fuzzy", 1))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            lazy.get()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "127.0.0.1:9" in caplog.text


def test_a_model_that_is_there_is_no_reason_for_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    LazyModel(lambda: load_model("bundled", "bundled", 1)).get()
    assert not caplog.records
