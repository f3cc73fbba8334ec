"""Changes of tools are noticed on every kind of connection: upstream:live."""

import contextlib
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import launcher
from tests.support import HELPERS, READ_FILE, Entry, Running, Scripted, running, until, write_config
from toolscript.bootstrap import Wiring
from toolscript.gateway.run_policy import Intervals
from toolscript.gateway.upstream.tool_listing import fresh_s

CONNECTIONS = [(t, p) for t in ("stdio", "http", "sse") for p in ("auto", "legacy")]
SELDOM = Intervals(ping_s=3600, poll_s=3600)
OFTEN = Intervals(ping_s=0.1, poll_s=0.2)


@pytest.fixture
def name(tmp_path: Path) -> Path:
    """What the server's tool is called."""
    path = tmp_path / "name"
    path.write_text("first", "utf-8")
    return path


@contextmanager
def connected(
    name: Path, transport: str, protocol: str, intervals: Intervals, *more: str
) -> Generator[Running]:
    """An application with the server, over this kind of connection."""
    script, arguments = HELPERS / "changing.py", [transport, str(name), *more]
    entry: Entry = {"protocol": protocol}
    with contextlib.ExitStack() as stack:
        if transport == "stdio":
            entry |= {"command": sys.executable, "args": [str(script), *arguments]}
        else:
            own = {"PATH": os.environ["PATH"]}
            url, _ = stack.enter_context(launcher.helper(script, *arguments, env=own))
            entry |= {"url": url, "type": transport}
        config = write_config(name.with_name("c.json"), {"one": entry})
        now = stack.enter_context(running(config, wiring=Wiring(intervals=intervals)))
        now.wait_for("one", "ready")
        now.settle()
        yield now


def rename(name: Path, to: str) -> None:
    part = name.with_suffix(".part")
    part.write_text(to, "utf-8")
    part.replace(name)


def finds(now: Running, tool: str) -> bool:
    return now.tool_ids() == [f"one__{tool}"] and now.finds(tool) == [f"one__{tool}"]


@pytest.mark.requirement("upstream:live")
@pytest.mark.parametrize(("transport", "protocol"), CONNECTIONS)
def test_a_change_that_is_told_is_found(name: Path, transport: str, protocol: str) -> None:
    """upstream:live: with no polling that could help, and more than once."""
    with connected(name, transport, protocol, SELDOM) as now:
        until(lambda: finds(now, "first"), "the first tool is found")
        for each in ("second", "third"):
            rename(name, each)
            until(lambda each=each: finds(now, each), f"the {each} tool is found", 10)


@pytest.mark.requirement("upstream:live")
@pytest.mark.parametrize(("transport", "protocol"), CONNECTIONS)
def test_a_change_that_is_not_told_is_found(name: Path, transport: str, protocol: str) -> None:
    """upstream:live: by listing again now and then."""
    with connected(name, transport, protocol, OFTEN, "quiet") as now:
        rename(name, "second")
        until(lambda: finds(now, "second"), "the second tool is found")


@pytest.mark.requirement("upstream:live")
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_stream_that_breaks_is_opened_again(name: Path, transport: str) -> None:
    """upstream:live: and what was said meanwhile is not missed."""
    deaf = name.with_name("name.deaf")
    deaf.touch()
    with connected(name, transport, "auto", SELDOM) as now:
        rename(name, "second")
        deaf.unlink()
        until(lambda: finds(now, "second"), "the second tool is found")
        rename(name, "third")
        until(lambda: finds(now, "third"), "the third tool is found")


@pytest.mark.requirement("upstream:live")
def test_a_list_is_not_asked_for_again_before_it_expires(scripted: Scripted) -> None:
    """upstream:live: pings go on meanwhile, and afterwards it is asked for again."""
    methods = scripted.directory / "methods"
    entry = scripted(READ_FILE, discover="answer", ttl_ms=1500, methods=str(methods))
    config = write_config(scripted.directory / "c.json", {"one": entry})
    with running(config, wiring=Wiring(intervals=OFTEN)) as now:
        now.wait_for("one", "ready")
        until(lambda: methods.read_text("utf-8").count("tools/list") > 1, "it is listed again", 20)
    between = methods.read_text("utf-8").split("tools/list")[1]
    assert between.count("server/discover") > 2


@pytest.mark.parametrize(
    ("protocol", "lifetimes_ms", "seconds"),
    [
        ("2026-07-28", [5000], 5),
        ("2026-07-28", [5000, 2000, 9000], 2),
        ("2026-07-28", [5000, None], 0),
        ("2026-07-28", [0], 0),
        ("2026-07-28", [10 * 365 * 86_400_000], 86_400),
        ("2025-11-25", [5000], 0),
        ("2025-11-25", ["soon"], 0),
    ],
)
def test_for_how_long_a_list_is_valid(
    protocol: str, lifetimes_ms: list[object], seconds: float
) -> None:
    """upstream:live: the page that expires first counts, and at most a day."""
    assert fresh_s(protocol, lifetimes_ms) == seconds
