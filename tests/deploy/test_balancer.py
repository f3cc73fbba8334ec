"""The balancer of the compose file, a real one, before real gateways."""

import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

import pytest

from tests.deploy.shipped import CADDYFILE, balancer, program
from tests.support import (
    FUZZY,
    READ_FILE,
    Cli,
    Entry,
    Scripted,
    fetch,
    kill_all,
    post,
    stop_all,
    tool,
    until,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="PyPI has no Caddy for Windows")
CLIENTS = 20
HANG = tool("hang", "Wait for ever", annotations={"destructiveHint": False})


class Gateway:
    """A gateway with a home of its own and a server, ``files``, that writes its calls down."""

    def __init__(self, home: Path) -> None:
        home.mkdir()
        self.cli = Cli(home, FUZZY)
        self._calls = home / "calls"
        self.entry: Entry = Scripted(home)(READ_FILE, HANG, silent=["hang"], calls=str(self._calls))

    def start(self) -> Self:
        """Starts it, and returns it once it is ready."""
        self.cli.configure(files=self.entry)
        self.cli.start_gateway()
        return self

    @property
    def url(self) -> str:
        return self.cli.record()["url"]

    @property
    def pid(self) -> int:
        return self.cli.record()["pid"]

    @property
    def calls(self) -> int:
        """How many calls its server was sent."""
        return self._calls.read_text("utf-8").count("\n") if self._calls.exists() else 0


@pytest.fixture
def gateways(tmp_path: Path, no_process_left: None) -> Generator[list[Gateway]]:
    """Two gateways that are not started yet."""
    made = [Gateway(tmp_path / name) for name in ("one", "two")]
    yield made
    stop_all(each.pid for each in made if each.cli.records)


def served_by(url: str) -> list[int]:
    """The processes that answer clients, each of which has a token of its own."""
    answers = [fetch(url, "/health", headers=bearer(number)) for number in range(CLIENTS)]
    assert {status for status, _ in answers} == {200}
    return [answer["pid"] for _, answer in answers]


def bearer(number: int) -> dict[str, str]:
    return {"Authorization": f"Bearer {number}"}


def test_its_configuration_is_valid() -> None:
    done = program("caddy", "validate", "--adapter", "caddyfile", "--config", CADDYFILE)
    assert "Valid configuration" in done.stdout + done.stderr
    assert program("caddy", "fmt", "--diff", CADDYFILE).returncode == 0


@pytest.mark.requirement("deploy:compose")
def test_each_client_keeps_its_gateway_and_has_another_once_that_dies(
    gateways: list[Gateway], tmp_path: Path
) -> None:
    one, two = (each.start() for each in gateways)
    with balancer(tmp_path, one.url, two.url) as url:
        until(lambda: set(served_by(url)) == {one.pid, two.pid}, "both are known to be ready")
        served = served_by(url)
        assert served_by(url) == served
        kill_all([one.pid])
        assert set(served_by(url)) == {two.pid}


@pytest.mark.requirement("deploy:compose")
def test_a_gateway_that_is_not_ready_gets_no_requests(
    gateways: list[Gateway], tmp_path: Path
) -> None:
    waiting, go = gateways[1], tmp_path / "go"
    waits = f'while [ ! -e \'{go}\' ]; do sleep 0.02; done; exec "$0" "$@"'
    entry = waiting.entry
    held = {"command": "/bin/sh", "args": ["-c", waits, entry["command"], *entry["args"]]}
    cli = waiting.cli
    cli.configure(files=held)
    command = cli.command("gateway", "start", "--open", "--foreground", "--port", "0")
    ready = gateways[0].start()
    with subprocess.Popen(command, env=cli.environment(), cwd=cli.home) as process:
        try:
            until(lambda: cli.records, "the gateway has left its record")
            with balancer(tmp_path, waiting.url, ready.url) as url:
                assert [fetch(waiting.url, path)[0] for path in ("/live", "/ready")] == [200, 503]
                assert set(served_by(url)) == {ready.pid}
                go.touch()
                until(lambda: waiting.pid in served_by(url), "it is ready and gets requests")
        finally:
            go.touch()
            process.terminate()


@pytest.mark.requirement("deploy:compose")
def test_a_call_that_a_gateway_has_received_is_not_made_again(
    gateways: list[Gateway], tmp_path: Path
) -> None:
    for each in gateways:
        each.start()
    urls = (each.url for each in gateways)
    with balancer(tmp_path, *urls) as url, ThreadPoolExecutor() as pool:
        pids = {each.pid for each in gateways}
        until(lambda: set(served_by(url)) == pids, "both are known to be ready")
        call = pool.submit(post, url, "/tools/files__hang", {})
        called = until(lambda: next((g for g in gateways if g.calls), None), "one is called")
        kill_all([called.pid])
        assert call.result()[0] == 502
        assert [each.calls for each in gateways if each is not called] == [0]
        assert set(served_by(url)) == pids - {called.pid}
