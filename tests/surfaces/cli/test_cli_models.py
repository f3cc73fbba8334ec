"""Models from the hub, as a user has them: on the command line and in a gateway."""

import json
import threading
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.embedding.conftest import write_tiny_model
from tests.hub import Hub
from tests.support import READ_FILE, SEND_MAIL, Cli, Scripted, on_a_terminal

from toolscript.embedding.loader import BUNDLED_FOLDER

MODEL = "acme/mini"
QUERY = ("search", "read the contents of a document")


@pytest.fixture
def hub() -> Generator[Hub]:
    with Hub.of(BUNDLED_FOLDER, MODEL).running() as made:
        yield made


@pytest.fixture
def online(cli: Cli, scripted: Scripted, hub: Hub) -> Cli:
    """A command line that reaches the hub of this machine, and has a configuration."""
    cli.configure(files=scripted(READ_FILE), mail=scripted(SEND_MAIL))
    cli.env = {
        "HF_ENDPOINT": hub.url,
        "HF_HUB_OFFLINE": "",
        "TOOLSCRIPT_SEARCH_MODEL": MODEL,
        "TOOLSCRIPT_SEARCH_TRUSTED_MODELS": f"other/model, {MODEL}",
    }
    return cli


def model_in(cache: Path) -> str:
    return str(json.loads(cache.read_bytes())["model"])


def first(shown: str) -> str:
    """The tool in a table's first row."""
    return shown.splitlines()[1].split()[0]


@pytest.mark.requirement("model:default", "model:select")
def test_a_model_is_downloaded_at_the_first_search_and_the_hub_not_asked_again(
    online: Cli, hub: Hub
) -> None:
    done = online(*QUERY)
    assert first(done.stdout) == "files__read_file"
    assert not done.stderr
    kept = online.home / ".toolscript" / "models" / "acme--mini" / "main"
    assert (kept / "onnx" / "model_quantized.onnx").is_file()
    [cache] = online.home.rglob("embeddings-*.json")
    assert model_in(cache).startswith("mini@")
    asked = len(hub.asked)
    again = online(*QUERY)
    assert again.stdout == done.stdout
    assert len(hub.asked) == asked


@pytest.mark.requirement("model:default")
def test_a_download_is_shown_on_a_terminal(online: Cli, hub: Hub) -> None:
    """model:default: a download that is over before the next look would not be seen."""
    seen = hub.pause = threading.Event()
    shown = on_a_terminal(online, *QUERY, watch=lambda s: seen.set() if b" MB" in s else None)
    before, _, table = shown.partition("Tool  ")
    assert f"downloading {MODEL}" in before
    assert " MB" in before
    assert "files__read_file" in table


@pytest.mark.requirement("model:bundled")
@pytest.mark.parametrize("model", ["Xenova/bge-small-en-v1.5", MODEL])
def test_with_a_hub_that_hangs_the_bundled_model_answers_with_one_warning(
    online: Cli, hub: Hub, model: str
) -> None:
    """model:bundled, search:degraded, model:default: the second search does not ask the hub."""
    hub.hang = True
    online.env["TOOLSCRIPT_SEARCH_MODEL"] = model
    done = online(*QUERY)
    assert first(done.stdout) == "files__read_file"
    assert done.stderr.count("\n") == 1
    expected = "degraded: semantic: using the bundled model: the hub at"
    assert expected in done.stderr
    asked = len(hub.asked)
    assert asked > 0
    assert model in hub.asked[0].path
    again = online(*QUERY)
    assert (again.stdout, again.stderr) == (done.stdout, done.stderr)
    assert len(hub.asked) == asked


@pytest.mark.requirement("cache:validity")
def test_the_model_that_stands_in_leaves_the_others_vectors_alone(online: Cli, hub: Hub) -> None:
    """cache:validity, model:bundled: a hub that is down for once costs nothing twice."""
    hub.status = 500
    online(*QUERY)
    hub.status = 200
    for note in online.home.rglob("*.failed.json"):
        note.unlink()
    assert not online(*QUERY).stderr
    kept = {path.parent.name: path for path in online.home.rglob("embeddings-*.json")}
    models = {name: model_in(path) for name, path in kept.items()}
    assert models["fallback"].startswith("toolscript-minilm-l6@")
    assert models["embeddings"].startswith("mini@")


@pytest.mark.requirement("model:bundled")
def test_offline_is_offline(online: Cli, hub: Hub) -> None:
    online.env["HF_HUB_OFFLINE"] = "1"
    done = online(*QUERY)
    assert first(done.stdout) == "files__read_file"
    assert f"{MODEL} is not here, and HF_HUB_OFFLINE forbids asking" in done.stderr
    assert not hub.asked


@pytest.mark.requirement("model:default")
def test_a_model_that_the_hubs_client_has_already_is_not_downloaded(
    online: Cli, hub: Hub, tmp_path: Path
) -> None:
    """model:default: offline, too."""
    commit = "0" * 40
    kept = tmp_path / "hf" / "hub" / "models--acme--mini"
    (kept / "refs").mkdir(parents=True)
    (kept / "refs" / "main").write_text(commit)
    for name in ("config.json", "tokenizer.json", "onnx/model_quantized.onnx"):
        path = kept / "snapshots" / commit / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(BUNDLED_FOLDER / name)
    online.env |= {"HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"}
    done = online(*QUERY)
    assert first(done.stdout) == "files__read_file"
    assert not done.stderr
    assert not hub.asked


@pytest.mark.requirement("model:lazy")
def test_lists_ask_no_hub(online: Cli, hub: Hub) -> None:
    for command in ("list-tools", "list-servers"):
        assert "files" in online(command).stdout
    assert not hub.asked


@pytest.mark.requirement("model:default")
def test_a_gateway_downloads_the_model_before_it_is_ready(online: Cli, hub: Hub) -> None:
    url = online.start_gateway()
    asked = len(hub.asked)
    assert asked > 0
    found = online.json(*QUERY)
    assert found["degraded"] == []
    assert found["results"][0]["toolId"] == "files__read_file"
    assert len(hub.asked) == asked
    assert url


@pytest.mark.requirement("model:select")
@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("nonsense", "is neither 'bundled', a folder that exists"),
        ("./no-such-folder", "is neither 'bundled', a folder that exists"),
        ("ollama:/mini", "is neither 'bundled', a folder that exists"),
        ("ollama://127.0.0.1:x/mini", "is no address"),
        ("stranger/mini", "set TOOLSCRIPT_SEARCH_TRUSTED_MODELS=stranger/mini"),
        ("empty", "config.json cannot be read"),
        ("vision", "wants the inputs pixels; expected input_ids"),
    ],
)
def test_a_model_that_cannot_be_what_was_asked_ends_with_one_line(
    cli: Cli, scripted: Scripted, model: str, said: str
) -> None:
    """model:select: exit code 2, and no other model answers in its place."""
    cli.configure(files=scripted(READ_FILE))
    if model in {"empty", "vision"}:
        folder = cli.home / model
        folder.mkdir(exist_ok=True)
        if model == "vision":
            sizes = {"hidden_size": 4, "max_position_embeddings": 64}
            write_tiny_model(folder, ("pixels",), json.dumps(sizes))
        model = str(folder)
    done = cli(*QUERY, "--model", model)
    assert done.returncode == 2
    assert not done.stdout
    [line] = done.stderr.splitlines()
    assert said in line


@pytest.mark.requirement("model:select", "model:bundled")
def test_a_model_that_cannot_be_reached_is_stood_in_for(online: Cli, hub: Hub) -> None:
    online.env = {**online.env, "HF_ENDPOINT": "http://127.0.0.1:9"}
    done = online(*QUERY)
    assert done.returncode == 0
    assert "using the bundled model" in done.stderr


@pytest.mark.requirement("model:device")
def test_a_command_logs_at_the_level_that_is_set(cli: Cli, scripted: Scripted) -> None:
    """model:device: the device that the model runs on, at debug level."""
    cli.configure(files=scripted(READ_FILE))
    assert "runs on cpu" not in cli(*QUERY).stderr
    done = cli(*QUERY, env={"TOOLSCRIPT_LOG_LEVEL": "debug"})
    assert "runs on cpu (asked for: auto)" in done.stderr
    done = cli(*QUERY, env={"TOOLSCRIPT_LOG_LEVEL": "loud"})
    assert done.returncode == 2
    assert "TOOLSCRIPT_LOG_LEVEL is 'loud'" in done.stderr


@pytest.mark.requirement("model:table")
def test_the_known_models_are_listed(cli: Cli) -> None:
    """model:table: with size, parameters, published figure, pooling and use."""
    shown = cli("models").stdout
    row = next(line for line in shown.splitlines() if line.startswith("Xenova/bge-small-en-v1.5"))
    assert row.split()[1:7] == ["34", "MB", "33.4M", "384", "51.68", "cls"]
    rows = {each["name"]: each for each in cli.json("models")["models"]}
    assert rows["all-mpnet-base-v2"]["dimensions"] == 768
    assert rows["all-MiniLM-L6-v2"]["mteb"] is None
    assert all(each["use"] and each["licence"] for each in rows.values())
