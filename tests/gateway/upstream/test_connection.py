"""What servers do wrong stays with them: upstream:isolation, one fault at a time.

In every test a well-behaved server of the same configuration has to be ready
and searchable, whatever the other one does.
"""

import http.server
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.support import (
    READ_FILE,
    SEND_MAIL,
    Entry,
    Running,
    Scripted,
    alive,
    kill_all,
    running,
    tool,
    until,
    write_config,
)
from toolscript.bootstrap import Wiring
from toolscript.gateway.process.stderr_log import MAX_BYTES
from toolscript.gateway.run_policy import Intervals
from toolscript.gateway.upstream.connection import LISTING_PAUSE_S
from toolscript.types import ServerStatus

_Number = TypeVar("_Number", int, float)

SECRET = "hunter2-correct-horse"  # noqa: S105 - looked for where it must not be
QUICK = {"TOOLSCRIPT_CONNECT_TIMEOUT": "1"}
OFTEN = Wiring(intervals=Intervals(ping_s=0.2))


@contextmanager
def beside(
    scripted: Scripted,
    bad: Entry,
    environ: dict[str, str] | None = None,
    wiring: Wiring | None = None,
) -> Generator[Running]:
    """An application with a good server beside a bad one; the good one works in any case."""
    config = write_config(
        scripted.directory / "servers.json", {"bad": bad, "good": scripted(READ_FILE)}
    )
    with running(config, environ, wiring) as now:
        now.wait_for("good", "ready")
        until(lambda: now.tool_ids("good"), "the good server's tools are known")
        until(lambda: searchable(now), "the good server's tool is found")
        yield now
        assert now.status("good").state == "ready"
        assert searchable(now)


def searchable(now: Running) -> bool:
    return now.portal.call(now.app.health).tools > 0 and "good__read_file" in now.finds("read_file")


def failure(scripted: Scripted, bad: Entry, environ: dict[str, str] | None = None) -> ServerStatus:
    """How the bad server is described once it has failed."""
    with beside(scripted, bad, environ) as now:
        return now.wait_for("bad", "failed")


# Starting, and what is not MCP


USAGE = "Usage: server [OPTIONS]\n"
ABSENT = "was not found or may not be run; install it or give the full path"
CLOSED = "closed the connection before it was ready"
NOT_MCP = "it printed 'Usage: server [OPTIONS]' on stdout, which is not MCP"
MOON = "waiting for the moon"
ESCAPES = "\x1b[31mno\x1b]0;title\x07 key\u202e\n"
NO_TEXT = {"command": "/bin/sh", "args": ["-c", r"printf 'caf\377\n' >&2; exit 1"]}
FAILURES: list[tuple[Entry, dict[str, Any], str]] = [
    ({"command": "no-such-program"}, {}, f"its command 'no-such-program' {ABSENT}"),
    ({"cwd": "/no/such/place"}, {}, "its working directory /no/such/place does not exist"),
    ({}, {"stderr": "loading\nno key\n\n", "exit": 3}, f"{CLOSED}; its last words: no key"),
    (NO_TEXT, {}, f"{CLOSED}; its last words: caf\ufffd"),
    ({}, {"stderr": ESCAPES, "exit": 1}, f"{CLOSED}; its last words: [31mno]0;title key"),
    ({}, {"exit": 0}, CLOSED),
    ({}, {"stdout": USAGE, "exit": 2}, f"{CLOSED}; {NOT_MCP}"),
    ({}, {"stdout": USAGE, "hang": True}, f"did not answer within 1 s; {NOT_MCP}"),
    ({}, {"stderr": MOON, "hang": True}, f"did not answer within 1 s; its last words: {MOON}"),
    ({"startTimeout": 0.5}, {"hang": True}, "did not answer within 0.5 s"),
    (
        {},
        {"list_error": "the database is locked"},
        "answered with an error: the database is locked",
    ),
]
"""Of an entry and what its server will do, how it is described once it has failed."""


@pytest.mark.parametrize(("entry", "will", "error"), FAILURES)
def test_a_failure_is_described(
    scripted: Scripted, entry: Entry, will: dict[str, Any], error: str
) -> None:
    assert failure(scripted, scripted(**will) | entry, QUICK).error == error


def test_a_command_that_may_not_be_run(scripted: Scripted) -> None:
    file = scripted.directory / "not-executable"
    file.write_text("#!/bin/sh\n", "utf-8")
    assert "may not be run" in failure(scripted, {"command": str(file)}).error


def test_hangs_at_start_while_the_other_is_searchable(scripted: Scripted) -> None:
    """upstream:isolation, catalogue:progressive: nobody waits for a server that hangs."""
    with beside(scripted, scripted(hang=True), {"TOOLSCRIPT_CONNECT_TIMEOUT": "600"}) as now:
        assert now.status("bad").state == "connecting"
        assert now.portal.call(now.app.health).waiting_for == ("bad",)


def test_fails_at_first_and_then_starts(scripted: Scripted) -> None:
    """upstream:isolation: it is tried again by itself."""
    program = scripted.directory / "later"
    with beside(scripted, scripted() | {"command": str(program)}) as now:
        now.wait_for("bad", "failed")
        program.symlink_to(sys.executable)
        status = now.wait_for("bad", "ready")
    assert status.error == ""


@pytest.mark.parametrize(
    "printed",
    [{"stdout": "Welcome to the server!\n{}\n[1, 2]\n"}, {"stdout_hex": "ff fe c3 28 80 0a"}],
    ids=["a banner", "no text"],
)
def test_prints_something_before_it_speaks_mcp(scripted: Scripted, printed: dict[str, Any]) -> None:
    """upstream:isolation: it is passed over."""
    with beside(scripted, scripted(SEND_MAIL, **printed)) as now:
        assert now.wait_for("bad", "ready").tools == 1


# Floods


@pytest.mark.parametrize("kind", ["stderr", "stdout", "notifications", "list_changed", "line"])
def test_floods(scripted: Scripted, kind: str) -> None:
    """upstream:isolation: the others are ready, searchable and settled meanwhile."""
    config = write_config(
        scripted.directory / "servers.json",
        {"bad": scripted(SEND_MAIL, flood=kind), "good": scripted(READ_FILE)},
    )
    with running(config, wiring=Wiring(intervals=Intervals(ping_s=1))) as now:
        now.wait_for("bad", "ready")
        now.wait_for("good", "ready")
        now.settle()
        for _ in range(20):
            assert "good__read_file" in now.finds("read_file")
        assert now.status("good").state == "ready"


def test_a_flooded_stderr_fills_no_disk(scripted: Scripted) -> None:
    """upstream:isolation: another file is begun before one grows too long, pinged or not."""
    with beside(scripted, scripted(SEND_MAIL, flood="stderr")) as now:
        now.wait_for("bad", "ready")
        [full] = until(lambda: logs(scripted, "bad.log.1"), "another file was begun")
        assert MAX_BYTES / 2 < full.stat().st_size <= MAX_BYTES
    assert sum(each.stat().st_size for each in logs(scripted, "bad.log*")) <= 2 * MAX_BYTES


# Its log


def logs(scripted: Scripted, name: str) -> list[Path]:
    return list((scripted.directory / "data" / "logs" / "servers").rglob(name))


def test_each_configuration_has_its_own_log(scripted: Scripted) -> None:
    """upstream:isolation: servers of one name do not write over each other."""
    said = scripted(READ_FILE, stderr="one\n"), scripted(READ_FILE, stderr="two\n")
    one, two = (
        write_config(scripted.directory / f"{number}.json", {"bad": entry})
        for number, entry in enumerate(said)
    )
    with running(one) as first, running(two) as second:
        first.wait_for("bad", "ready")
        second.wait_for("bad", "ready")
    written = [log.read_text("utf-8") for log in logs(scripted, "bad.log")]
    assert sorted(written) == ["one\n", "two\n"]


def test_a_log_that_cannot_be_written(scripted: Scripted, caplog: pytest.LogCaptureFixture) -> None:
    """upstream:isolation: the server works, its last words are known, and it is told once."""
    starts = scripted.directory / "starts"
    (scripted.directory / "data").mkdir()
    (scripted.directory / "data" / "logs").write_text("no directory")
    bad = scripted(stderr="no API key given\n", exit=3, starts=str(starts))
    with beside(scripted, bad) as now:
        until(lambda: len(pids(starts)) > 2, "it was started again")
        assert now.status("bad").error.endswith("its last words: no API key given")
    told = logged(caplog)
    assert [told.count(name) for name in ("bad.log", "good.log")] == [1, 1]


def test_a_name_too_long_for_a_file(scripted: Scripted) -> None:
    """upstream:isolation: it is cut for the file, and no two are cut to the same."""
    names = ["ä" * 100 + end for end in ("1", "2")]
    servers = {name: scripted(READ_FILE, stderr="hello\n") for name in names}
    with running(write_config(scripted.directory / "servers.json", servers)) as now:
        for name in names:
            now.wait_for(name, "ready")
    assert [log.read_text("utf-8") for log in logs(scripted, "*.log")] == ["hello\n"] * 2


# Its list


INVALID: dict[str, tuple[Any, str]] = {
    "no schema": ({"name": "odd", "description": "x"}, "odd: inputSchema: Field required"),
    "a string for a schema": (tool("odd", inputSchema="none"), "odd: inputSchema: "),
    "no name": ({"inputSchema": {"type": "object"}}, "a tool without a name: name: Field required"),
    "a number for a name": (tool(42), "42: name: "),
    "an empty name": (tool(""), "a tool without a name: the name is empty or cannot be shown"),
    "a blank name": (tool("  "), "the name is empty or cannot be shown"),
    "a name with escapes": (tool("a\x1b[2Jb"), "a[2Jb: the name is empty or cannot be shown"),
    "a number for a description": (tool("odd", 5), "odd: description: "),  # type: ignore[arg-type]
    "no object": ("odd", "a tool without a name: "),
    "null": (None, "a tool without a name: "),
    "a name listed twice": (SEND_MAIL, "send_mail: listed twice; the first is kept"),
}


@pytest.mark.parametrize("kind", INVALID)
def test_one_invalid_tool_costs_only_itself(scripted: Scripted, kind: str) -> None:
    """upstream:isolation: the server's other tools are there, and the bad one is accounted for."""
    entry, expected = INVALID[kind]
    with beside(scripted, scripted(SEND_MAIL, entry, tool("last"))) as now:
        status = now.wait_for("bad", "ready")
        assert now.tool_ids("bad") == ["bad__last", "bad__send_mail"]
        [line] = status.rejected
        assert expected in line


def test_all_tools_invalid(scripted: Scripted) -> None:
    """upstream:isolation: a server without one usable tool is ready, with none."""
    with beside(scripted, scripted({"name": "a"}, {"name": "b"})) as now:
        status = now.wait_for("bad", "ready")
        assert (status.tools, len(status.rejected)) == (0, 2)


@pytest.mark.parametrize("listed", [{"a": 1}, "tools", None, 7])
def test_its_list_is_no_list(scripted: Scripted, listed: Any) -> None:
    file = scripted.directory / "tools.json"
    file.write_text(json.dumps(listed), "utf-8")
    status = failure(scripted, scripted(tools_file=str(file)))
    assert status.error.startswith("sent an invalid answer (tools")


def test_many_pages(scripted: Scripted) -> None:
    """upstream:isolation: every page is read."""
    tools = [tool(f"tool_{number}") for number in range(25)]
    with beside(scripted, scripted(*tools, page_size=4)) as now:
        assert now.wait_for("bad", "ready").tools == 25


@pytest.mark.parametrize("cursor", ["same", "new"])
def test_pages_without_end(scripted: Scripted, cursor: str) -> None:
    """upstream:isolation: what was listed counts, and the account of the rest stays short."""
    with beside(scripted, scripted(SEND_MAIL, page_size=1, endless=cursor)) as now:
        status = now.wait_for("bad", "ready")
        assert now.tool_ids("bad") == ["bad__send_mail"]
        assert len(status.rejected) <= 21
        is_told = "past page 1000 of its list" in "; ".join(status.rejected)
        assert is_told == (cursor == "new"), "the same page again has nothing more"


# Later


def test_hangs_later(scripted: Scripted) -> None:
    """upstream:isolation: a stopped process is noticed by ping, ended and started anew."""
    starts = scripted.directory / "starts"
    bad = scripted(SEND_MAIL, starts=str(starts))
    with beside(scripted, bad, wiring=OFTEN) as now:
        now.wait_for("bad", "ready")
        [first] = pids(starts)
        os.kill(first, signal.SIGSTOP)
        status = now.wait_for("bad", "connecting")
        assert status.error.startswith("did not answer a ping within 0.2 s")
        until(lambda: len(pids(starts)) == 2, "it was started again")
        now.wait_for("bad", "ready")
        assert not alive(first)
        assert now.finds("send_mail") == ["bad__send_mail"]


def test_hangs_later_and_again_at_each_start(scripted: Scripted) -> None:
    """upstream:isolation: it is failed, and its tools are gone."""
    starts = scripted.directory / "starts"
    program = scripted.directory / "program"
    program.symlink_to(sys.executable)
    bad = scripted(SEND_MAIL, starts=str(starts)) | {"command": str(program)}
    with beside(scripted, bad, wiring=OFTEN) as now:
        now.wait_for("bad", "ready")
        program.unlink()
        os.kill(pids(starts)[0], signal.SIGSTOP)
        now.wait_for("bad", "failed")
        assert now.tool_ids("bad") == []
        now.settle()
        assert now.finds("send_mail") == []


def test_is_killed(scripted: Scripted) -> None:
    """upstream:isolation: it comes back with its tools, which stay known meanwhile."""
    starts = scripted.directory / "starts"
    bad = scripted(SEND_MAIL, starts=str(starts))
    with beside(scripted, bad) as now:
        now.wait_for("bad", "ready")
        kill_all(pids(starts))
        status = now.wait_for("bad", "connecting")
        assert status.error == "closed the connection"
        assert now.tool_ids("bad") == ["bad__send_mail"]
        until(lambda: len(pids(starts)) == 2, "it was started again")
        now.wait_for("bad", "ready")
        assert now.finds("send_mail") == ["bad__send_mail"]


def test_dies_whenever_it_is_ready(scripted: Scripted) -> None:
    """upstream:isolation: from the second time on it is failed, until it stays."""
    dies = scripted.directory / "dies"
    dies.touch()
    with beside(scripted, scripted(SEND_MAIL, dies=str(dies))) as now:
        assert now.wait_for("bad", "failed").error == "closed the connection"
        assert now.tool_ids("bad") == []
        dies.unlink()
        until(lambda: now.tool_ids("bad") == ["bad__send_mail"], "it has come back")
        assert now.status("bad").state == "ready"


def test_its_tools_change_whenever_they_are_listed(scripted: Scripted) -> None:
    """upstream:isolation: they are listed again, with pauses."""
    listings = scripted.directory / "listings"
    with beside(scripted, scripted(SEND_MAIL, listings=str(listings), restless=True)):
        until(lambda: len(times(listings)) > 3, "it was listed again")
    found = times(listings)
    assert min(later - earlier for earlier, later in pairwise(found)) >= LISTING_PAUSE_S


def test_hangs_when_it_is_listed_again(scripted: Scripted) -> None:
    """upstream:isolation: a server that says its tools have changed and then does not list them."""
    bad = scripted(SEND_MAIL, restless=True, lists=1)
    with beside(scripted, bad, QUICK) as now:
        assert now.wait_for("bad", "failed").error == "did not list its tools within 1 s"


def times(listings: Path) -> list[float]:
    return numbers(listings, float)


def pids(starts: Path) -> list[int]:
    return numbers(starts, int)


def numbers(file: Path, kind: Callable[[str], _Number]) -> list[_Number]:
    """What a server has written down so far."""
    return [kind(line) for line in file.read_text("utf-8").split()] if file.exists() else []


@pytest.mark.requirement("upstream:live")
def test_its_tools_change(scripted: Scripted) -> None:
    """upstream:live: over a legacy stdio connection, list_changed changes the catalogue."""
    file = scripted.directory / "tools.json"
    file.write_text(json.dumps([SEND_MAIL]), "utf-8")
    with beside(scripted, scripted(tools_file=str(file))) as now:
        now.wait_for("bad", "ready")
        now.settle()
        draft = file.with_suffix(".part")
        draft.write_text(json.dumps([tool("draw_picture", "Draw a picture")]), "utf-8")
        draft.replace(file)
        until(lambda: now.tool_ids("bad") == ["bad__draw_picture"], "the catalogue has changed")
        until(lambda: now.finds("draw_picture") == ["bad__draw_picture"], "the index has changed")
        assert "bad__send_mail" not in now.finds("send_mail")


# Over HTTP


class Answering(http.server.BaseHTTPRequestHandler):
    """Answers everything with the status of its server."""

    status = 500
    wait = threading.Event()

    def answer(self) -> None:
        self.send_response(self.status)
        self.send_header("content-length", "4")
        self.end_headers()
        self.wfile.write(b"no\r\n")

    do_GET = do_POST = do_DELETE = answer  # noqa: N815 - as http.server calls them

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is there
        """Says nothing."""


@contextmanager
def answering(status: int) -> Generator[str]:
    """The URL of a web server that answers with one status only."""
    handler = type("Handler", (Answering,), {"status": status})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("kind", ["http", "sse", None])
@pytest.mark.parametrize("status", [401, 404, 500])
def test_answers_with_a_status(scripted: Scripted, status: int, kind: str | None) -> None:
    """upstream:isolation: the status is told, what was tried, and that headers matter."""
    with answering(status) as url:
        error = failure(scripted, {"url": url} | ({"type": kind} if kind else {})).error
    first, second = ("SSE", "Streamable HTTP") if kind == "sse" else ("Streamable HTTP", "SSE")
    told = {
        401: "answered HTTP 401; log in with toolscript auth bad, or check its headers",
        404: f"answered HTTP 404 over {first}; answered HTTP 404 over {second}",
        500: "answered HTTP 500",
    }
    assert error == told[status]


@pytest.mark.parametrize("kind", ["http", "sse", None])
def test_nothing_listens(scripted: Scripted, kind: str | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}/mcp"
    error = failure(scripted, {"url": url} | ({"type": kind} if kind else {})).error
    assert error.startswith("cannot be reached: ")


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_accepts_and_never_answers(scripted: Scripted, kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"
        error = failure(scripted, {"url": url, "type": kind}, QUICK).error
    assert error == "did not answer within 1 s"


# Secrets


SECRETIVE = {
    "its last words": {"stderr_env": "TOKEN", "exit": 1},
    "its last words, cut": {"stderr": "x" * 195, "stderr_env": "TOKEN", "exit": 1},
    "what it prints on stdout": {"stdout": f"{SECRET}\n", "exit": 1},
    "what it prints on stdout, cut": {"stdout": "x" * 55 + f"{SECRET}\n", "exit": 1},
    "an error": {"list_error": f"the key {SECRET} is wrong"},
    "an error, cut": {"list_error": "x" * 270 + SECRET},
    "a name": {"tools": [{"name": SECRET}, SEND_MAIL]},
    "its own name": {"name": SECRET, "tools": [SEND_MAIL]},
}


@pytest.mark.parametrize("where", SECRETIVE)
def test_a_secret_is_not_shown(
    scripted: Scripted, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    """upstream:isolation: values of env never appear in the status, nor half of one in a log."""
    bad = scripted(**SECRETIVE[where], env={"TOKEN": SECRET})
    with beside(scripted, bad) as now:
        until(lambda: now.status("bad").state in {"ready", "failed"}, "it has settled")
        shown = repr(now.statuses()) + logged(caplog)
    assert SECRET[:4] not in shown
    assert "*" in shown


@pytest.mark.parametrize(
    "change",
    [
        {"command": "${KEY}"},
        {"command": "it's-${KEY}"},
        {"cwd": "/${KEY}"},
        {"url": "${KEY}", "type": "http"},
        {"type": "${KEY}"},
        {"protocol": "${KEY}"},
    ],
)
def test_a_variable_is_not_shown(scripted: Scripted, change: Entry) -> None:
    """upstream:isolation: wherever its value was put in."""
    bad = scripted(SEND_MAIL) | change
    with beside(scripted, bad, {"KEY": SECRET}) as now:
        until(lambda: now.status("bad").state in {"failed", "invalid"}, "it has settled")
        assert now.status("bad").error
        assert SECRET not in repr(now.statuses())


def test_an_argument_that_is_repeated_is_not_shown(scripted: Scripted) -> None:
    """upstream:isolation: by a server that complains about its key."""
    bad = scripted(stderr="invalid API key ${KEY}\n", exit=1)
    with beside(scripted, bad, {"KEY": SECRET}) as now:
        status = now.wait_for("bad", "failed")
    assert status.error.endswith("its last words: invalid API key ***")


def logged(caplog: pytest.LogCaptureFixture) -> str:
    """What we log; the libraries' own loggers are silenced by the command line."""
    ours = (record for record in caplog.records if record.name.startswith("toolscript"))
    return "\n".join(record.getMessage() for record in ours)


def test_a_header_is_not_shown(scripted: Scripted, caplog: pytest.LogCaptureFixture) -> None:
    """upstream:isolation: nor do the values of headers appear."""
    with answering(401) as url:
        headers = {"Authorization": f"Bearer {SECRET}"}
        status = failure(scripted, {"url": url, "headers": headers})
    assert SECRET not in repr(status) + logged(caplog)


# The end


@pytest.mark.parametrize("stubborn", [False, True])
def test_no_process_is_left(scripted: Scripted, *, stubborn: bool) -> None:
    """upstream:isolation: nor of a server that ignores the end of its input and SIGTERM."""
    child = scripted.directory / "child"
    with beside(scripted, scripted(SEND_MAIL, child=str(child), stubborn=stubborn)) as now:
        now.wait_for("bad", "ready")
        assert alive(int(child.read_text("utf-8")))
    assert not alive(int(child.read_text("utf-8")))


def test_no_process_is_left_of_a_server_that_died(scripted: Scripted) -> None:
    """upstream:isolation: nor does what a server started outlive it."""
    child = scripted.directory / "child"
    failure(scripted, scripted(child=str(child), exit=1))
    assert not alive(int(child.read_text("utf-8")))


@pytest.mark.requirement("upstream:isolation")
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process is known by its group")
def test_no_process_is_left_that_left_its_group(scripted: Scripted) -> None:
    """upstream:isolation: a daemon with a session of its own, of a server that goes on or ended."""
    ongoing, ended = (scripted.directory / name for name in ("ongoing", "ended"))
    good = scripted(SEND_MAIL, daemon=str(ongoing))
    entries = {"good": good, "bad": scripted(daemon=str(ended), exit=1)}
    with running(write_config(scripted.directory / "servers.json", entries)) as now:
        now.wait_for("good", "ready")
        now.wait_for("bad", "failed")
        assert not alive(int(ended.read_text("utf-8")))
        until(ongoing.exists, "the daemon has begun")
        assert alive(int(ongoing.read_text("utf-8")))
    assert not alive(int(ongoing.read_text("utf-8")))
