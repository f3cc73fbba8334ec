"""``toolscript logs``, ``restart`` and ``describe``, and their routes."""

import json
import os
from pathlib import Path

import pytest
from tests.support import FUZZY, READ_FILE, Cli, Scripted, create_token, fetch, post, tool

from toolscript.gateway.process.stderr_log import last_lines

KEY = "correct-horse-battery"
TALKS = f"begun\nthe key is {KEY}\nready\n"
TYPED = {
    "type": "object",
    "properties": {"path": {"type": "string", "description": "Really. " * 40}},
}


@pytest.fixture
def home(cli: Cli, scripted: Scripted) -> Cli:
    cli.env = FUZZY
    cli.configure(
        files=scripted(
            READ_FILE,
            tool("list_files", "Lists files.\n\nAll of them.", inputSchema=TYPED),
            stderr=TALKS,
            starts=str(cli.home / "starts"),
            env={"FILES_KEY": KEY},
        ),
        bad=scripted(exit=1, stderr="no licence\n"),
        far={"url": "http://127.0.0.1:9/mcp"},
    )
    return cli


@pytest.mark.both_storages
def test_the_log_of_a_server_without_the_secrets_of_its_entry(home: Cli) -> None:
    url = home.start_gateway()
    done = home("logs", "files", "--lines", "2")
    assert (done.returncode, done.stdout.splitlines()) == (0, ["the key is ***", "ready"])
    [path] = home.home.rglob("files.log")
    assert str(path) in done.stderr
    assert home("logs", "bad").stdout.splitlines()[-1] == "no licence"
    assert home.json("logs", "files")["lines"][0] == "begun"
    for name, message in (("far", "far has no log here"), ("none", "no server is called 'none'")):
        assert message in home("logs", name).stderr
    token = create_token(home)["token"]
    limited = create_token(home, "--server", "files")["token"]
    for secret, status in ((token, 200), (limited, 403)):
        headers = {"Authorization": f"Bearer {secret}"}
        assert fetch(url, "/servers/log", {"server": "files"}, headers=headers)[0] == status


def test_the_log_is_read_without_a_gateway(home: Cli) -> None:
    assert home("list-tools", "--refresh").returncode == 0
    starts = (home.home / "starts").read_text()
    assert home("logs", "files").stdout.splitlines()[-1] == "ready"
    assert (home.home / "starts").read_text() == starts


def test_a_restarted_server_is_another_process(home: Cli) -> None:
    assert "no gateway is running" in home("restart", "files").stderr
    url = home.start_gateway()
    assert post(url, "/tools/files__read_file", {})[0] == 200
    starts = (home.home / "starts").read_text().splitlines()
    done = home("restart", "files")
    assert (done.returncode, done.stdout) == (0, "files is ready with 2 tools\n")
    assert len((home.home / "starts").read_text().splitlines()) == len(starts) + 1
    assert post(url, "/tools/files__read_file", {})[0] == 200
    assert home("logs", "files").stdout.count("ready") == 2, "the log has the run before"
    assert "no licence" in home("restart", "bad").stderr
    token = create_token(home, "--server", "files")["token"]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    asked = {"server": "files"}
    assert fetch(url, "/servers/restart", asked, method="POST", headers=headers)[0] == 403


def test_a_tool_is_described_as_a_whole(home: Cli) -> None:
    done = home("describe", "files:list_files")
    assert done.returncode == 0, done.stderr
    text, _, schema = done.stdout.partition("It takes:\n")
    assert text == "files__list_files\nread, new\n\nLists files.\n\nAll of them.\n\n"
    assert json.loads(schema) == TYPED
    assert home.json("describe", "files__list_files")["inputSchema"] == TYPED
    missing = home("describe", "files__list_file")
    assert "the nearest are: files__list_files" in missing.stderr


def test_the_end_of_a_long_log_begins_with_a_whole_line(tmp_path: Path) -> None:
    path, lines = last_lines(tmp_path, "a b", 9)
    assert lines == []
    path.write_text("x" * 400_000 + "\nlast\n")
    assert last_lines(tmp_path, "a b", 9) == (path, ["last"])
    Path(f"{path}.1").write_text("before\n")
    assert last_lines(tmp_path, "a b", 9)[1] == ["before", "last"]
    assert last_lines(tmp_path, "a b", 1)[1] == ["last"]
    own = tmp_path / "a b.0123abcd.log"
    own.write_text("of a project\n")
    os.utime(path, (1, 1))
    assert last_lines(tmp_path, "a b", 9) == (own, ["of a project"])
