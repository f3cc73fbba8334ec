"""Downloads from a hub on this machine, by huggingface-hub's own client."""

import json
import subprocess
import sys
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.hub import COMMIT, Hub
from tests.support import until
from toolscript.embedding import hub as module
from toolscript.embedding.download_progress import Progress
from toolscript.embedding.loader import BUNDLED_FOLDER, Choice, identify, load_choice
from toolscript.embedding.model_layout import ON_CPU, ON_GPU
from toolscript.embedding.models import Repository
from toolscript.errors import ModelError, UnreachableError

REPOSITORY = Repository("acme/mini")
NEEDED = ["config.json", "tokenizer.json", "onnx/model_quantized.onnx"]


@pytest.fixture
def hub() -> Generator[Hub]:
    """A hub with the bundled model, and with what has no business on a user's machine."""
    made = Hub.of(BUNDLED_FOLDER, REPOSITORY.name)
    made.files |= {f"{REPOSITORY.name}/{name}": b"evil" for name in ("setup.py", "x.pkl")}
    with made.running():
        yield made


@pytest.fixture
def store(hub: Hub, tmp_path: Path) -> module.Hub:
    return module.Hub(tmp_path / "models", hub.url)


def files(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def forget(store: module.Hub) -> None:
    """As after ten minutes."""
    for path in store.directory.rglob("*.failed.json"):
        path.unlink()


@pytest.mark.requirement("model:default")
def test_a_model_is_downloaded_once_with_progress_and_only_what_is_needed(
    hub: Hub, store: module.Hub
) -> None:
    progress = Progress()
    assert store.local(REPOSITORY) is None
    folder = store.fetch(REPOSITORY, ON_CPU, progress)
    assert files(folder) == sorted(["complete.json", *NEEDED])
    assert all((folder / n).read_bytes() == (BUNDLED_FOLDER / n).read_bytes() for n in NEEDED)
    total = sum((BUNDLED_FOLDER / name).stat().st_size for name in NEEDED)
    assert (progress.done_bytes, progress.total_bytes, progress.what) == (total, total, "")
    assert {path for path in hub.paths if "/api/" not in path} == {
        f"/{REPOSITORY.name}/{name}" for name in NEEDED
    }
    marker = json.loads((folder / "complete.json").read_bytes())
    assert (marker["repository"], marker["commit"]) == (REPOSITORY.name, COMMIT)
    asked = len(hub.asked)
    assert store.local(REPOSITORY) == store.fetch(REPOSITORY, ON_CPU, progress) == folder
    assert len(hub.asked) == asked


def test_all_files_are_of_the_branchs_commit(hub: Hub, store: module.Hub) -> None:
    store.fetch(REPOSITORY, ON_CPU, Progress())
    assert "/revision/main" in hub.asked[0].path
    resolved = [asked.path.split("/")[4] for asked in hub.asked if "resolve" in asked.path]
    assert set(resolved) == {COMMIT}


@pytest.mark.requirement("model:device")
def test_on_a_gpu_the_weights_that_are_not_int8_are_preferred(hub: Hub, store: module.Hub) -> None:
    hub.files[f"{REPOSITORY.name}/onnx/model_fp16.onnx"] = b"half"
    hub.files[f"{REPOSITORY.name}/onnx/model.onnx"] = b"whole"
    folder = store.fetch(REPOSITORY, ON_GPU, Progress())
    assert [p.name for p in (folder / "onnx").iterdir()] == ["model_fp16.onnx"]


def test_the_pooling_that_a_repository_states_comes_along(hub: Hub, store: module.Hub) -> None:
    hub.files[f"{REPOSITORY.name}/1_Pooling/config.json"] = b'{"pooling_mode_cls_token": true}'
    folder = store.fetch(REPOSITORY, ON_CPU, Progress())
    assert (folder / "1_Pooling" / "config.json").is_file()


def test_the_token_reaches_the_hub_and_not_the_store_elsewhere(
    hub: Hub, store: module.Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    store.fetch(REPOSITORY, ON_CPU, Progress())
    sent = {
        (asked.path != f"/{REPOSITORY.name}/{NEEDED[2]}"): asked.authorization
        for asked in hub.asked
    }
    assert sent == {True: "Bearer hf_secret", False: ""}


# Interrupted


@pytest.mark.requirement("model:default")
def test_a_download_that_is_cut_goes_on_where_it_was(hub: Hub, store: module.Hub) -> None:
    hub.cut_after, hub.cuts = 12_000_000, 1
    progress = Progress()
    folder = store.fetch(REPOSITORY, ON_CPU, progress)
    weights = BUNDLED_FOLDER / NEEDED[2]
    assert (folder / NEEDED[2]).read_bytes() == weights.read_bytes()
    assert len([asked.range for asked in hub.asked if asked.range]) == 1
    assert hub.sent < weights.stat().st_size * 1.2
    assert progress.done_bytes == progress.total_bytes


FETCH = """
import sys
from pathlib import Path
from toolscript.embedding.hub import Hub
from toolscript.embedding.models import Repository
from toolscript.embedding.model_layout import ON_CPU
from toolscript.embedding.download_progress import Progress
Hub(Path(sys.argv[1]), sys.argv[2]).fetch(Repository("acme/mini"), ON_CPU, Progress())
"""


@pytest.mark.requirement("model:default")
def test_after_a_killed_process_the_next_one_downloads_the_model(
    hub: Hub, store: module.Hub
) -> None:
    hub.hang_after = 12_000_000
    first = subprocess.Popen([sys.executable, "-c", FETCH, str(store.directory), hub.url])
    try:
        until(
            lambda: any(p.stat().st_size > 4e6 for p in store.directory.rglob("*.incomplete")), ""
        )
    finally:
        first.kill()
        first.wait()
    hub.hang_after = 0
    assert store.local(REPOSITORY) is None
    folder = store.fetch(REPOSITORY, ON_CPU, Progress())
    assert (folder / NEEDED[2]).read_bytes() == (BUNDLED_FOLDER / NEEDED[2]).read_bytes()
    assert files(folder) == sorted(["complete.json", *NEEDED])


def test_two_at_once_download_it_once(hub: Hub, store: module.Hub) -> None:
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(store.fetch, REPOSITORY, ON_CPU, Progress()) for _ in range(3)]
        found = [each.result() for each in waiting]
    assert len(set(found)) == 1
    sent = [asked.path for asked in hub.asked if asked.method == "GET"]
    assert len([path for path in sent if path.endswith("onnx/model_quantized.onnx")]) == 1


# What goes wrong


def refused(store: module.Hub, kind: type[ModelError] = ModelError) -> str:
    with pytest.raises(kind) as caught:
        store.fetch(REPOSITORY, ON_CPU, Progress())
    assert store.local(REPOSITORY) is None
    return str(caught.value)


@pytest.mark.requirement("model:default")
def test_weights_that_arrive_damaged_are_thrown_away(hub: Hub, store: module.Hub) -> None:
    name = hub.corrupt = NEEDED[2]
    assert f"{name} is not the file that the hub describes" in refused(store)
    folder = store.folder(REPOSITORY)
    assert not (folder / name).exists()
    hub.corrupt = ""
    forget(store)
    store.fetch(REPOSITORY, ON_CPU, Progress())


@pytest.mark.requirement("model:select")
@pytest.mark.parametrize("name", NEEDED)
def test_a_repository_without_one_of_the_files_is_refused_naming_it(
    hub: Hub, store: module.Hub, name: str
) -> None:
    del hub.files[f"{REPOSITORY.name}/{name}"]
    assert name in refused(store)


@pytest.mark.requirement("model:select")
@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "has no acme/mini that you may read"),
        (404, "has no acme/mini that you may read"),
        (403, "acme/mini is gated"),
        (500, "answered HTTP 500"),
        (503, "answered HTTP 503"),
        (407, "answered HTTP 407"),
    ],
)
def test_a_hub_that_refuses_is_quoted(
    hub: Hub, store: module.Hub, status: int, message: str
) -> None:
    hub.status = status
    assert message in refused(store)


@pytest.mark.requirement("model:bundled")
@pytest.mark.parametrize("how", ["down", "hanging", "store hanging", "no hub"])
def test_a_hub_that_does_not_answer_is_given_up_and_that_is_remembered(
    hub: Hub, tmp_path: Path, how: str
) -> None:
    """model:bundled: it costs its time once, not at every search."""
    url = hub.url
    if how == "down":
        url = "http://127.0.0.1:9"
    hub.hang, hub.hang_store = how == "hanging", how == "store hanging"
    if how == "no hub":
        url = hub.store_url
        hub.files = {"api/models/acme/mini/revision/main?blobs=true": b"<html>"}
    store = module.Hub(tmp_path / "models", url)
    first = refused(store, UnreachableError)
    asked = len(hub.asked)
    assert url in first
    assert ("within 1.5 s" in first) is ("hanging" in how)
    assert refused(store, UnreachableError) == first == store.failed(REPOSITORY)
    assert len(hub.asked) == asked


def test_a_download_that_was_given_up_goes_no_further(hub: Hub, store: module.Hub) -> None:
    """model:bundled: a hub that wakes up later finds nobody, and nothing is written."""
    hub.hold = threading.Event()
    refused(store, UnreachableError)
    hub.hold.set()
    for thread in threading.enumerate():
        if thread.name == "toolscript-hub":
            thread.join(30)
            assert not thread.is_alive()
    assert len(hub.asked) == 1
    assert files(store.folder(REPOSITORY)) == []


def test_another_environment_asks_again(
    hub: Hub, store: module.Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """model:bundled: a token that was set, or another proxy, may change the answer."""
    hub.status = 401
    refused(store)
    assert store.failed(REPOSITORY)
    monkeypatch.setenv("HF_TOKEN", "hf_new")
    assert not store.failed(REPOSITORY)
    hub.status = 200
    store.fetch(REPOSITORY, ON_CPU, Progress())
    notes = "".join(p.read_text() for p in store.directory.rglob("*.json") if "failed" in p.name)
    assert "hf_new" not in notes


def test_a_note_from_long_ago_or_from_the_future_counts_for_nothing(
    hub: Hub, store: module.Hub
) -> None:
    hub.status = 500
    refused(store)
    [note] = store.directory.rglob("*.failed.json")
    good = json.loads(note.read_bytes())
    past, future = good["until"] - module.FORGET_S - 1, good["until"] + 10 * module.FORGET_S
    for moment in (past, future, "x"):
        note.write_text(json.dumps(good | {"until": moment}))
        assert not store.failed(REPOSITORY)
    note.write_bytes(b"[")
    assert not store.failed(REPOSITORY)


FULL = """
import resource, signal, sys
from pathlib import Path
from toolscript.embedding.hub import Hub
from toolscript.embedding.models import Repository
from toolscript.embedding.model_layout import ON_CPU
from toolscript.embedding.download_progress import Progress
from toolscript.errors import ModelError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5_000_000, resource.RLIM_INFINITY))
try:
    Hub(Path(sys.argv[1]), sys.argv[2]).fetch(Repository("acme/mini"), ON_CPU, Progress())
except ModelError as error:
    print(error)
"""


@pytest.mark.requirement("model:default")
def test_a_disk_that_fills_up_is_told_and_nothing_counts_as_downloaded(
    hub: Hub, store: module.Hub
) -> None:
    command = [sys.executable, "-c", FULL, str(store.directory), hub.url]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "acme/mini cannot be stored in" in ran.stdout
    assert "File too large" in ran.stdout
    assert store.local(REPOSITORY) is None
    store.fetch(REPOSITORY, ON_CPU, Progress())  # there is room again: nothing was remembered


def test_a_file_in_the_place_of_the_directory_is_told(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "models").write_bytes(b"")
    assert "cannot be stored in" in refused(module.Hub(tmp_path / "models", hub.url))


def test_a_model_that_was_damaged_on_the_disk_is_fetched_again(hub: Hub, store: module.Hub) -> None:
    folder = store.fetch(REPOSITORY, ON_CPU, Progress())
    (folder / "tokenizer.json").write_bytes(b"{}")
    assert store.local(REPOSITORY) is None
    store.fetch(REPOSITORY, ON_CPU, Progress())
    assert (folder / "tokenizer.json").stat().st_size > 2


# From the choice to the encoder


def choice(hub: Hub, tmp_path: Path, **changes: Any) -> Choice:
    asked = Choice(
        "acme/mini", directory=tmp_path / "models", endpoint=hub.url, trusted="acme/mini"
    )
    return replace(asked, **changes)


def test_a_model_from_the_hub_is_what_it_is_on_the_disk(hub: Hub, tmp_path: Path) -> None:
    asked = choice(hub, tmp_path)
    assert identify(asked) is None
    assert not hub.asked
    loaded = load_choice(asked, Progress())
    assert loaded.encoder is not None
    assert not loaded.degraded
    identity = identify(asked)
    assert identity is not None
    assert identity.name == loaded.encoder.name
    assert loaded.encoder.name.startswith("mini@")


@pytest.mark.requirement("model:bundled")
@pytest.mark.parametrize(("fallback", "there"), [("bundled", True), ("fuzzy", False)])
def test_where_the_hub_does_not_answer_the_bundled_model_does(
    hub: Hub, tmp_path: Path, fallback: str, *, there: bool
) -> None:
    hub.status = 500
    asked = choice(hub, tmp_path, fallback=fallback)
    loaded = load_choice(asked, Progress())
    assert bool(loaded.encoder) is there
    assert "answered HTTP 500" in loaded.degraded
    identity = identify(asked)
    assert bool(identity) is there
    if identity and loaded.encoder:
        assert (identity.name, identity.degraded) == (loaded.encoder.name, loaded.degraded)
