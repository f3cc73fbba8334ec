"""``toolscript doctor``: cli:others."""

import json
import os
import re
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from tests import launcher
from tests.support import FUZZY, HELPERS, READ_FILE, Cli, Scripted, on_a_terminal, write_config

from toolscript.config.settings import load_settings
from toolscript.surfaces.server.doctor_checks import file_findings


@pytest.fixture
def port() -> str:
    """One that is free."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return str(taken.getsockname()[1])


def findings(cli: Cli, port: str, code: int) -> dict[str, Any]:
    done = cli("doctor", "--port", port, "--output", "json")
    assert done.returncode == code, done.stdout + done.stderr
    return {each["what"]: each for each in json.loads(done.stdout)["findings"]}


@pytest.mark.both_storages
def test_nothing_is_wrong(cli: Cli, scripted: Scripted, port: str) -> None:
    """cli:others: with no gateway, and with one, which is asked."""
    config = cli.configure(files=scripted(READ_FILE))
    found = findings(cli, port, 0)
    assert found["configuration"]["found"] == str(config)
    assert found["gateway"]["found"] == "not running"
    assert found["port"]["found"] == f"127.0.0.1 port {port} is free"
    assert found["server files"]["found"] == "1 tool of scripted 1"
    assert found["cache"]["found"] == "1 tool indexed, 1 embedded"
    assert "toolscript-minilm" in found["model"]["found"]
    url = cli.start_gateway()
    found = findings(cli, port, 0)
    assert found["gateway"]["found"].startswith(url)
    assert "port" not in found
    table = cli("doctor", "--port", port).stdout
    assert "server files" in table


@pytest.mark.requirement("cli:others")
def test_a_server_over_sse_works_and_is_named(cli: Cli, port: str) -> None:
    """cli:others: by the transport that works, whatever its entry says."""
    environ = {"PATH": os.environ["PATH"]}
    with launcher.helper(HELPERS / "sdk.py", "events", "0", env=environ) as (url, _):
        cli.configure(old={"url": url, "type": "http"})
        found = findings(cli, port, 0)["server old"]
    assert found["found"] == "2 tools of sdk 7; over SSE, which MCP has given up"
    assert found["degraded"] is True
    assert "Streamable HTTP" in found["advice"]


@pytest.mark.requirement("upstream:lazy")
def test_a_resting_server_is_well(cli: Cli, scripted: Scripted, port: str) -> None:
    cli.configure(files=scripted(READ_FILE))
    assert cli("list-tools").returncode == 0
    cli.start_gateway()
    found = findings(cli, port, 0)
    assert found["server files"]["found"] == "1 tool of scripted 1, started when needed"


@pytest.mark.parametrize(
    ("runner", "args", "is_pinned"),
    [
        ("npx", ["-y", "@scope/server@1.2.3"], True),
        ("npx", ["-y", "@scope/server"], False),
        ("npx", ["-y", "server@latest"], False),
        ("npx", ["server@1"], False),
        ("uvx", ["mcp-server-git==2026.1.1"], True),
        ("uvx", ["--from", "mcp-server-git", "serve"], False),
        ("docker", ["run", "-i", "--rm", "-e", "KEY", f"mcp/git@sha256:{'ab' * 32}"], True),
        ("docker", ["run", "-i", "--rm", "-e", "KEY", "mcp/git:1.2.3"], False),
    ],
)
def test_packages_are_named_and_whether_they_are_pinned(
    tmp_path: Path,
    runner: str,
    args: list[str],
    is_pinned: bool,  # noqa: FBT001 - a parameter
) -> None:
    """A package that is not pinned is another program once its author says so."""
    config = write_config(tmp_path / "c.json", {"s": {"command": runner, "args": args}})
    settings = load_settings({"config": str(config), "data_dir": str(tmp_path)})
    [found] = [each for each in file_findings(settings) if each.what == "packages"]
    assert found.ok
    assert found.found.startswith("s ")
    assert ("(not pinned)" not in found.found, not found.advice) == (is_pinned, is_pinned)
    assert any(each in found.found for each in args)


def test_what_may_be_called_and_is_accepted_unseen(cli: Cli, scripted: Scripted, port: str) -> None:
    cli.configure(files=scripted(READ_FILE))
    found = findings(cli, port, 0)
    assert found["permissions"]["found"].startswith("no rules: reads and writes are allowed")
    assert "answers only your own commands" in found["tokens"]["found"]
    servers = {"files": {**scripted(READ_FILE), "autoApprove": True}}
    rules: Any = {
        "permissions": {"fi*__a": "ask", "flies__*": "deny"},
        "profiles": {"a": {}, "b": {}},
    }
    path = cli.home / ".toolscript.json"
    path.write_text(json.dumps({"mcpServers": servers, **rules}), "utf-8")
    said = findings(cli, port, 0)["permissions"]["found"]
    assert said.startswith("2 rules, 2 profiles; no server is there for flies__*; changed tools")
    assert "are accepted unseen of files" in said


@pytest.mark.requirement("cli:others")
def test_what_is_wrong_is_told_with_what_to_do(cli: Cli, scripted: Scripted) -> None:
    """cli:others: the port, a server, an entry, the model, a file of tokens."""
    cli.env = FUZZY
    bad = scripted(exit=1, stderr="no key\n")
    gone = {"command": "no-such-program"}
    cli.configure(files=scripted(READ_FILE), bad=bad, odd={"type": "pigeon"}, gone=gone)
    assert cli("token", "create").returncode == 0
    [path] = cli.home.rglob("tokens-*.json")
    path.write_text("{", "utf-8")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found = findings(cli, str(taken.getsockname()[1]), 1)
    wrong = {what for what, each in found.items() if not each["ok"]}
    assert wrong == {"port", "server bad", "server gone", "server odd", "model", "tokens"}
    assert found["port"]["advice"] == "choose another with --port"
    assert found["server bad"]["found"].endswith("its last words: no key")
    assert found["server bad"]["advice"] == "see its log: toolscript logs bad"
    assert found["server gone"]["advice"] == "see the guide to troubleshooting"
    assert found["server odd"]["advice"] == "correct its entry in the configuration"
    assert "no caller is let in" in found["tokens"]["found"]


@pytest.mark.parametrize("columns", [30, 80, 120, 0], ids=lambda each: f"{each or 'no'} columns")
def test_reasons_and_advice_are_never_cut(cli: Cli, port: str, columns: int) -> None:
    """However long they are, in a terminal and in a pipe; words and commands stay whole."""
    cli.env = FUZZY
    words = "the licence of this server has ended, ask its vendor for another one " * 2
    program = f"import sys; print({words!r}, file=sys.stderr); sys.exit(3)"
    cli.configure(**{"long name": {"command": sys.executable, "args": ["-c", program]}})
    for command in (["doctor", "--port", port], ["list-servers"]):
        code = int(command[0] == "doctor")
        shown = cli(*command).stdout
        if columns:
            shown = on_a_terminal(cli, *command, columns=columns, code=code)
        lines = re.sub(r"\x1b\[\d+m", "", shown).splitlines()
        read = " ".join(" ".join(lines).split())
        assert words.strip() in read
        if code:
            assert "see its log: toolscript logs 'long name'" in read
        told = [line for line in lines if "licence" in line]
        assert columns or any(words.strip() in line for line in told)
        assert max(map(len, told)) <= (columns or 400)


def test_a_key_that_is_not_read_is_told(cli: Cli, scripted: Scripted, port: str) -> None:
    """The server works, but not as it was asked for."""
    cli.env = FUZZY
    cli.configure(files={**scripted(READ_FILE), "sandbox": {"network": False}})
    line = "sandbox is not read: the server runs with your rights"
    [server] = cli.json("list-servers", "--refresh")["servers"]
    assert server["unread"] == [line]
    assert server["state"] == "ready"
    assert line in cli("list-servers").stdout
    assert line in findings(cli, port, 1)["server files"]["found"]


def test_a_variable_that_is_no_option_is_told(cli: Cli, scripted: Scripted, port: str) -> None:
    """An option that a former version had, or one that is misspelt."""
    cli.env = {"TOOLSCRIPT_POLL_INTERVAL": "5", "TOOLSCRIPT_IDLE_TIMEOUT": "60"}
    cli.env["TOOLSCRIPT_CLASS"] = "read"  # of typed clients
    cli.configure(files=scripted(READ_FILE))
    told = "TOOLSCRIPT_POLL_INTERVAL is no option, so it changes nothing"
    assert findings(cli, port, 0)["settings"]["found"] == told


def test_the_entry_of_toolscript_itself_is_told_and_not_wrong(
    cli: Cli, scripted: Scripted, port: str
) -> None:
    cli.env = FUZZY
    cli.configure(files=scripted(READ_FILE), ts={"command": "toolscript", "args": ["mcp"]})
    assert cli("list-tools", "--refresh").stdout.count("__") == 1
    line = "disabled; it is toolscript itself, as its clients have it, and is left out here"
    finding = findings(cli, port, 1)["server ts"]  # the model is missing
    assert (finding["ok"], finding["found"]) == (True, line)
    assert cli.json("list-servers")["servers"][1]["unread"] == [line.partition("; ")[2]]


def test_a7_a_model_that_cannot_be_had_is_degraded_and_not_wrong(
    cli: Cli, scripted: Scripted, port: str
) -> None:
    """cli:others, model:bundled: where the hub is out of reach, the bundled model does its work."""
    cli.env = {
        "TOOLSCRIPT_SEARCH_MODEL": "Xenova/bge-small-en-v1.5",
        "HF_ENDPOINT": f"http://127.0.0.1:{port}",  # nothing listens there
        "HF_HUB_OFFLINE": "",
    }
    cli.configure(files=scripted(READ_FILE))
    found = findings(cli, port, 0)["model"]
    assert (found["ok"], found["degraded"]) == (True, True)
    assert f"using the bundled model: the hub at http://127.0.0.1:{port}" in found["found"]
    assert "TOOLSCRIPT_SEARCH_MODEL=bundled" in found["advice"]
    table = cli("doctor", "--port", port)
    assert table.returncode == 0
    [row] = [line for line in table.stdout.splitlines() if line.startswith("model ")]
    assert row.split()[1] == "degraded"


@pytest.mark.parametrize("text", [None, "{", '{"mcpServers": {}}'])
def test_a_configuration_that_is_no_use(cli: Cli, port: str, text: str | None) -> None:
    """cli:others: is told, too."""
    if text:
        (cli.home / ".toolscript.json").write_text(text, "utf-8")
    found = findings(cli, port, 1)
    assert not found["configuration"]["ok"]
    assert found["data"]["ok"]


def test_a_misspelt_key_beside_the_servers_is_told(cli: Cli, scripted: Scripted, port: str) -> None:
    """config:file: the server works, and any command that reads the file warns."""
    config = cli.configure(files=scripted(READ_FILE))
    config.write_text(json.dumps({**json.loads(config.read_text("utf-8")), "skils": []}), "utf-8")
    cli.env = FUZZY
    done = cli("doctor", "--port", port, "--output", "json")
    found = json.loads(done.stdout)["findings"]
    message = f"{config}: the key 'skils' is not known; did you mean 'skills'?"
    assert message in [each["found"] for each in found if not each["ok"]]
    assert message in done.stderr
    assert [each["ok"] for each in found if each["what"] == "server files"] == [True]
