"""The ways to reach a server, with servers made by the real SDK: upstream:transports."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import launcher
from tests.support import (
    HELPERS,
    READ_FILE,
    Entry,
    Running,
    Scripted,
    alive,
    running,
    until,
    write_config,
)
from toolscript.bootstrap import Wiring
from toolscript.gateway.run_policy import Intervals

KEY = "Bearer a-key-of-ours"
OFTEN = Wiring(intervals=Intervals(ping_s=0.1))
TOOLS = ["one__current_time", "one__read_file"]
STDIO: Entry = {"command": sys.executable, "args": [str(HELPERS / "sdk.py"), "stdio"]}


@contextmanager
def listening(
    transport: str, port: int = 0, env: dict[str, str] | None = None
) -> Generator[tuple[str, "launcher.Forked | subprocess.Popen[str]"]]:
    """A server of the SDK on a port of this machine: its URL, its process."""
    environ = {"PATH": os.environ["PATH"], **(env or {})}
    with launcher.helper(HELPERS / "sdk.py", transport, str(port), env=environ) as started:
        yield started


@pytest.fixture(scope="module")
def http_url() -> Generator[str]:
    with listening("http") as (url, _):
        yield url


@pytest.fixture(scope="module")
def events_url() -> Generator[str]:
    with listening("events") as (url, _):
        yield url


def offers(tmp_path: Path, entry: Entry) -> None:
    """The server of this entry becomes ready with its tools, which are found."""
    with running(write_config(tmp_path / "servers.json", {"one": entry})) as now:
        status = now.wait_for("one", "ready")
        assert (status.tools, status.version) == (2, "sdk 7")
        assert now.tool_ids() == TOOLS
        now.settle()
        assert now.finds("current_time")[0] == "one__current_time"


@pytest.mark.requirement("upstream:transports")
@pytest.mark.parametrize("protocol", ["auto", "legacy"])
def test_stdio(tmp_path: Path, protocol: str) -> None:
    """upstream:transports: stdio, in the newest protocol and in the older one."""
    offers(tmp_path, STDIO | {"protocol": protocol})


@pytest.mark.requirement("upstream:transports")
@pytest.mark.parametrize("protocol", ["auto", "legacy"])
@pytest.mark.parametrize("kind", ["http", "streamable-http", None])
def test_streamable_http(tmp_path: Path, http_url: str, protocol: str, kind: str | None) -> None:
    """upstream:transports: streamable HTTP, whether or not the type is stated."""
    offers(tmp_path, {"url": http_url, "protocol": protocol} | ({"type": kind} if kind else {}))


def test_slow_to_start_and_modern(tmp_path: Path) -> None:
    """upstream:transports: the discovery is answered when it has been given up already.

    A modern server then refuses the older handshake.
    """
    script = 'sleep 3.5; exec "$0" "$1" stdio'
    entry: Entry = {"command": "sh", "args": ["-c", script, sys.executable, STDIO["args"][0]]}
    config = write_config(tmp_path / "servers.json", {"one": entry})
    with running(config, {"TOOLSCRIPT_CONNECT_TIMEOUT": "9"}) as now:  # a third is for discovery
        assert now.wait_for("one", "ready").tools == 2


@pytest.mark.requirement("upstream:transports")
def test_sse(tmp_path: Path) -> None:
    """upstream:transports: SSE."""
    with listening("sse") as (url, _):
        offers(tmp_path, {"url": url, "type": "sse"})


@pytest.mark.requirement("upstream:transports")
@pytest.mark.parametrize("stated", [{}, {"type": "http"}, {"type": "sse"}])
@pytest.mark.parametrize("speaks", ["http", "events"])
def test_the_other_transport_is_tried(
    tmp_path: Path, http_url: str, events_url: str, speaks: str, stated: Entry
) -> None:
    """upstream:transports: whatever the type says, since clients take the two for the same."""
    entry: Entry = {"url": http_url if speaks == "http" else events_url} | stated
    offers(tmp_path, entry)
    with running(write_config(tmp_path / "servers.json", {"one": entry})) as now:
        assert now.status("one").transport == ("http" if speaks == "http" else "sse")


@pytest.mark.requirement("upstream:transports")
@pytest.mark.parametrize("transport", ["http", "sse"])
def test_headers_reach_the_server(tmp_path: Path, transport: str) -> None:
    """upstream:transports: with the header it answers, without it does not."""
    with listening(transport, env={"NEEDS_AUTHORIZATION": KEY}) as (url, _):
        offers(tmp_path, {"url": url, "type": transport, "headers": {"Authorization": KEY}})
        entry = {"url": url, "type": transport}
        with running(write_config(tmp_path / "servers.json", {"one": entry})) as now:
            error = now.wait_for("one", "failed").error
            assert error.startswith("answered HTTP 401; log in with toolscript auth one, or check")


def test_the_environment_reaches_the_server(scripted: Scripted) -> None:
    """upstream:transports: ``env`` is passed on; the rest of our environment is not."""
    show = "import os, sys; sys.exit(repr(sorted(k for k in os.environ if k.startswith('T_'))))"
    entry = {"command": sys.executable, "args": ["-c", show], "env": {"T_GIVEN": "1"}}
    config = write_config(scripted.directory / "servers.json", {"one": entry})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("T_OURS", "1")
        with running(config) as now:
            assert now.wait_for("one", "failed").error.endswith("its last words: ['T_GIVEN']")


def test_what_a_server_inherits(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    """upstream:transports: what programs need to reach others; no keys; ``env`` wins."""
    passed = {
        "HTTPS_PROXY": "http://proxy:1",
        "https_proxy": "http://proxy:2",
        "no_proxy": "local",
        "SSL_CERT_FILE": "/x.pem",
        "NODE_EXTRA_CA_CERTS": "/y.pem",
        "DOCKER_HOST": "unix:///x",
        "DOCKER_CONTEXT": "x",
        "LANG": "pl_PL.UTF-8",
        "LC_ALL": "pl_PL.UTF-8",
        "XDG_RUNTIME_DIR": "/run/user/1",
        "PYENV_ROOT": "/pyenv",
    }
    kept = {"OPENAI_API_KEY": "k", "SSH_AUTH_SOCK": "/agent", "all_proxy": "a", "ALL_PROXY": "b"}
    for name, value in (passed | kept).items():
        monkeypatch.setenv(name, value)
    names = [*passed, *kept]
    file = scripted.directory / "environment.json"
    code = (
        "import json, os, pathlib, sys; found = {n: os.environ.get(n) for n in sys.argv[2:]};"
        "pathlib.Path(sys.argv[1]).write_text(json.dumps(found))"
    )
    entry = {"command": sys.executable, "args": ["-c", code, str(file), *names]}
    env = {"ALL_PROXY": "", "LANG": "de_DE.UTF-8"}
    with running(
        write_config(scripted.directory / "servers.json", {"one": entry | {"env": env}})
    ) as now:
        now.wait_for("one", "failed")
    nothing = dict.fromkeys(kept)
    assert json.loads(file.read_text("utf-8")) == passed | nothing | env


@pytest.mark.parametrize("discover", ["refuse", "silent"])
def test_a_server_that_knows_no_discovery(scripted: Scripted, discover: str) -> None:
    """upstream:transports: an older server is spoken to in its protocol, refusal or silence."""
    entry = scripted(READ_FILE, discover=discover)
    config = write_config(scripted.directory / "servers.json", {"one": entry})
    with running(config, {"TOOLSCRIPT_CONNECT_TIMEOUT": "3"}) as now:
        assert now.wait_for("one", "ready").tools == 1


def first_requests(methods: Path) -> list[str]:
    """The first request of each start."""
    starts = methods.read_text("utf-8").split("start\n")[1:]
    return [each.split()[0] for each in starts]


def is_started(now: Running) -> bool:
    status = now.status("one")
    return status.state == "ready" and not status.snapshot


@pytest.mark.requirement("upstream:transports")
def test_a_server_is_spoken_to_as_it_spoke_the_last_time(
    scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    """upstream:transports: one that answers no discovery is not asked for it at each start.

    It is asked again after it has called itself otherwise.
    """
    methods, fate = scripted.directory / "methods", scripted.directory / "fate.json"
    fate.write_text("{}", "utf-8")
    entry = scripted(READ_FILE, discover="silent", methods=str(methods), fate=str(fate))
    config = write_config(scripted.directory / "servers.json", {"one": entry})

    def start() -> None:
        with methods.open("a", encoding="utf-8") as file:
            file.write("start\n")
        with running(config, {"TOOLSCRIPT_CONNECT_TIMEOUT": "3"}, Wiring(start="all")) as now:
            until(lambda: is_started(now), "it has been started")

    start()
    start()
    assert first_requests(methods) == ["server/discover", "initialize"]
    fate.write_text(json.dumps({"discover": "answer", "name": "newer"}), "utf-8")
    start()
    start()
    assert first_requests(methods)[2:] == ["initialize", "server/discover"]
    assert len([each for each in caplog.messages if each.startswith("one is newer ")]) == 1


@pytest.mark.requirement("upstream:transports")
def test_a_server_that_no_longer_speaks_as_it_did(scripted: Scripted) -> None:
    """upstream:transports: the attempt after the one that fails asks it."""
    fate = scripted.directory / "fate.json"
    fate.write_text("{}", "utf-8")
    entry = scripted(READ_FILE, fate=str(fate))
    config = write_config(scripted.directory / "servers.json", {"one": entry})
    with running(config) as now:
        now.wait_for("one", "ready")
    fate.write_text(json.dumps({"discover": "answer", "refuses": ["initialize"]}), "utf-8")
    with running(config, wiring=Wiring(start="all")) as now:
        until(lambda: is_started(now), "it has been started")


@pytest.mark.parametrize("code", [-32000, -32001, -32600, -32602, -32603, 0, 404])
def test_a_server_that_refuses_discovery_in_its_own_way(scripted: Scripted, code: int) -> None:
    """upstream:transports: whatever error it answers, -32000 above all, is no lost connection."""
    entry = scripted(READ_FILE, refusal=code)
    config = write_config(scripted.directory / "servers.json", {"one": entry})
    with running(config) as now:
        assert now.wait_for("one", "ready").tools == 1


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
def test_an_http_server_that_is_restarted(tmp_path: Path, protocol: str) -> None:
    """upstream:isolation: the new process knows no old session, so a new one is begun."""
    with listening("http") as (url, first):
        entry = {"url": url, "type": "http", "protocol": protocol}
        config = write_config(tmp_path / "servers.json", {"one": entry})
        with running(config, wiring=OFTEN) as now:
            before = now.wait_for("one", "ready")
            first.kill()
            first.wait()
            until(lambda: now.status("one").state != "ready", "it is noticed")
            port = int(url.split(":")[2].split("/")[0])
            with listening("http", port):
                after = now.wait_for("one", "ready")
                assert (before.tools, after.tools) == (2, 2)
                assert now.tool_ids() == TOOLS


def test_a_session_that_the_server_forgot(tmp_path: Path) -> None:
    """upstream:isolation: an HTTP server that answers a ping with 404 is connected to anew."""
    flag = tmp_path / "forgetful"
    with listening("http", env={"FORGETFUL": str(flag)}) as (url, _):
        entry = {"url": url, "type": "http", "protocol": "legacy"}
        config = write_config(tmp_path / "servers.json", {"one": entry})
        with running(config, wiring=OFTEN) as now:
            now.wait_for("one", "ready")
            flag.touch()
            assert now.wait_for("one", "connecting").error == "answered HTTP 404"
            flag.unlink()
            now.wait_for("one", "ready")


def test_its_process_ends_with_the_application(tmp_path: Path) -> None:
    """upstream:transports: a stdio server of the SDK ends when its input does."""
    pid = tmp_path / "pid"
    wrapper = 'echo $$ > "$0"; exec "$@"'
    entry = STDIO | {"command": "/bin/sh"}
    entry["args"] = ["-c", wrapper, str(pid), sys.executable, *STDIO["args"]]
    with running(write_config(tmp_path / "servers.json", {"one": entry})) as now:
        now.wait_for("one", "ready")
        assert alive(int(pid.read_text("utf-8")))
    assert not alive(int(pid.read_text("utf-8")))


def test_the_filters_of_a_configuration(scripted: Scripted) -> None:
    """upstream:transports: includeTools and excludeTools hold; one that fits nothing is told."""
    tools = [json.loads(json.dumps(READ_FILE)) | {"name": n} for n in ("read", "write", "wipe")]
    entry = scripted(*tools) | {"includeTools": ["w*", "raed"], "excludeTools": ["wipe"]}
    entry["class"] = {"x*": "read"}
    with running(write_config(scripted.directory / "servers.json", {"one": entry})) as now:
        status = now.wait_for("one", "ready")
        assert now.tool_ids() == ["one__write"]
        assert status.rejected == (
            "includeTools names 'raed', which the server does not have",
            "class names 'x*', which the server does not have",
        )
