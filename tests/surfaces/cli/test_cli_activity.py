"""``toolscript activity``, run as a process."""

import json
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.storage.test_activity_log import CALL
from tests.support import FUZZY, Cli, Scripted, on_a_terminal, tool

from toolscript.config.locations import key_of
from toolscript.config.settings import load_settings
from toolscript.postgres.shared_stores import open_stores
from toolscript.storage.activity_log import ActivityLog
from toolscript.storage.base import ActivityStorage

pytestmark = pytest.mark.both_storages
NOW = datetime.now(UTC)
HEADER = ["Time", "Who", "Tool", "Outcome", "ms", "Sent", "Received"]


@contextmanager
def log_of(cli: Cli, config: Path) -> Generator[ActivityStorage]:
    """Where a gateway of this configuration writes its calls."""
    if not cli.storage:
        yield ActivityLog(cli.home / ".toolscript" / "activity", key_of((config,)))
        return
    shared = open_stores(load_settings({}, cli.environment()))
    yield shared.activity
    shared.close()


@pytest.fixture
def recorded(cli: Cli, scripted: Scripted) -> Generator[ActivityStorage]:
    """What was called today and the day before yesterday; the server may not start."""
    cli.env = {**FUZZY, "TZ": "UTC"}
    config = cli.configure(files=scripted(tool("read_file"), starts=str(cli.home / "starts")))
    old = (NOW - timedelta(days=2)).isoformat(timespec="milliseconds")
    now = NOW.isoformat(timespec="milliseconds")
    with log_of(cli, config) as log:
        log.append(
            [
                replace(CALL, time=old, who="1f2e3d4c", outcome="tool error", result_bytes=1234),
                replace(CALL, time=now, tool="evil\x1b[2J", argument_bytes=5_600_000, ms=12.34),
            ]
        )
        yield log


@pytest.mark.usefixtures("recorded")
def test_a_table_without_a_gateway(cli: Cli) -> None:
    """No server is started for that, and third-party text is harmless."""
    done = cli("activity")
    assert done.returncode == 0, done.stderr
    header, new, old = done.stdout.splitlines()
    assert header.split() == HEADER
    assert new.split() == [
        *(NOW.strftime("%H:%M:%S"), "owner", "evil[2J", "ok", "12.3", "5.6", "MB")
    ]
    day = (NOW - timedelta(days=2)).strftime("%Y-%m-%d")
    assert old.split() == [
        *(day, NOW.strftime("%H:%M:%S"), "1f2e3d4c", "files__read_file"),
        *("tool", "error", "1.5", "2", "B", "1.2", "kB"),
    ]
    assert not (cli.home / "starts").exists()


@pytest.mark.usefixtures("recorded")
def test_on_a_terminal(cli: Cli) -> None:
    shown = on_a_terminal(cli, "activity")
    assert "evil[2J" in shown
    assert "\x1b[2J" not in shown


@pytest.mark.usefixtures("recorded")
def test_options_choose(cli: Cli) -> None:
    def ids(*options: str) -> list[int]:
        return [call["id"] for call in cli.json("activity", *options)["calls"]]

    assert ids() == [2, 1]
    assert ids("--limit", "1") == [2]
    assert ids("--tool", "files__*") == [1]
    assert ids("--who", "owner") == [2]
    assert ids("--outcome", "tool error") == [1]
    assert cli("activity", "--outcome", "tool error", "--who", "owner").stdout == (
        "no calls are recorded that fit\n"
    )
    wrong = cli("activity", "--outcome", "good")
    assert (wrong.returncode, "choose one of ok, tool error" in wrong.stderr) == (2, True)


def test_an_empty_log_says_so(cli: Cli, scripted: Scripted) -> None:
    cli.env = FUZZY
    cli.configure(files=scripted(tool("read_file")))
    done = cli("activity")
    assert (done.returncode, done.stdout) == (0, "no calls are recorded that fit\n")
    assert not (cli.home / ".toolscript" / "activity").exists()


def test_calls_without_a_gateway_are_recorded(cli: Cli, scripted: Scripted) -> None:
    cli.env = FUZZY
    cli.configure(files=scripted(tool("read_file")))
    assert cli("call", "files__read_file").returncode == 0
    assert cli("call", "files__nope").returncode == 2
    calls = cli.json("activity")["calls"]
    assert [(call["who"], call["tool"], call["outcome"]) for call in calls] == [
        ("owner", "files__nope", "unknown tool"),
        ("owner", "files__read_file", "ok"),
    ]


@pytest.mark.parametrize("form", ["table", "json"])
def test_following_shows_each_new_call_once(recorded: ActivityStorage, cli: Cli, form: str) -> None:
    command = cli.command("activity", "--follow", "--limit", "1", "--output", form)
    with subprocess.Popen(
        command, env=cli.environment(), cwd=cli.home, stdout=subprocess.PIPE, text=True
    ) as follower:
        assert follower.stdout is not None
        if form == "table":
            assert follower.stdout.readline().split() == HEADER
        tools = ["evil", *(f"files__{number}" for number in range(250))]
        assert "evil" in follower.stdout.readline()
        for first in (0, 125):
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            named = [replace(CALL, time=now, tool=name) for name in tools[1 + first : 126 + first]]
            recorded.append(named)
            for call in named:
                line = follower.stdout.readline()
                shown = json.loads(line)["tool"] if form == "json" else line.split()[2]
                assert shown == call.tool
        follower.send_signal(signal.SIGINT)
        assert follower.stdout.read() == ""
    assert follower.returncode == 130
