"""Probes: whether the process answers, and whether a search can be answered."""

import http.client
import json
import subprocess
import threading
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.support import (
    FUZZY,
    PATIENCE_S,
    READ_FILE,
    SEND_MAIL,
    Cli,
    Entry,
    Scripted,
    fetch,
    until,
)

LIVE = (200, {"status": "live"})
READY = (200, {"status": "ready"})


def ready(url: str) -> tuple[int, str, str]:
    """The status of ``/ready``, its sentence, and its Retry-After."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_S)
    try:
        connection.request("GET", "/ready")
        response = connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
        return response.status, answer.get("error", ""), response.headers.get("retry-after", "")
    finally:
        connection.close()


def held_back(scripted: Scripted, name: str, entry: Entry) -> Entry:
    """A server that starts once the file ``name`` is there."""
    waits = f'while [ ! -e \'{scripted.directory / name}\' ]; do sleep 0.02; done; exec "$0" "$@"'
    return {"command": "/bin/sh", "args": ["-c", waits, entry["command"], *entry["args"]]}


def start(cli: Cli) -> "subprocess.Popen[str]":
    """A gateway in the foreground, as soon as it answers."""
    command = cli.command("gateway", "start", "--open", "--foreground", "--port", "0")
    process = subprocess.Popen(
        command, env=cli.environment(), cwd=cli.home, stderr=subprocess.PIPE, text=True
    )
    try:
        until(lambda: cli.records, "the gateway has left its record")
    except AssertionError:
        process.kill()
        raise
    return process


@pytest.mark.both_storages
@pytest.mark.requirement("http:others")
def test_it_is_ready_once_all_tools_are_indexed_and_stays_so(cli: Cli, scripted: Scripted) -> None:
    """http:others: a server that comes later takes nothing from what can be found."""
    cli.env = FUZZY
    files, mail = scripted(READ_FILE), held_back(scripted, "mail", scripted(SEND_MAIL))
    cli.configure(files=files, mail=mail)
    with start(cli) as process:
        try:
            url = cli.record()["url"]
            until(lambda: fetch(url, "/health")[1]["tools"], "the first server is indexed")
            assert fetch(url, "/live") == LIVE
            status, sentence, retry = ready(url)
            assert (status, retry) == (503, "5")
            assert "indexed" in sentence
            assert "mail" not in sentence
            (scripted.directory / "mail").touch()
            was_ready = READY
            if cli.storage:
                was_ready = 200, READY[1] | {"database": True}
            until(lambda: fetch(url, "/ready") == was_ready, "it is ready")
            later = held_back(scripted, "later", scripted(READ_FILE))
            cli.configure(files=files, mail=mail, later=later)
            until(lambda: "later" in fetch(url, "/health")[1]["waitingFor"], "it is waited for")
            assert fetch(url, "/ready") == was_ready
        finally:
            process.terminate()


def test_a_gateway_with_nothing_to_search_is_not_ready(cli: Cli) -> None:
    cli.env = FUZZY
    cli.configure()
    with start(cli) as process:
        try:
            url = cli.record()["url"]
            until(lambda: "nothing to search" in ready(url)[1], "it says what is missing")
            assert ready(url)[0] == 503
            assert fetch(url, "/live") == LIVE
        finally:
            process.terminate()


def test_probes_need_no_token_and_tell_nothing(cli: Cli, scripted: Scripted) -> None:
    cli.env = FUZZY
    cli.configure(files=scripted(READ_FILE))
    url = cli.start_gateway()
    assert cli("token", "create").returncode == 0
    assert fetch(url, "/tools")[0] == 401
    for headers in ({}, {"Authorization": "Bearer ts_wrong"}):
        assert fetch(url, "/live", headers=headers) == LIVE
        assert fetch(url, "/ready", headers=headers) == READY
    assert fetch(url, "/ready", headers={"Host": "evil.example"})[0] == 400


@pytest.mark.both_storages
def test_from_sigterm_on_it_is_live_and_not_ready(cli: Cli, scripted: Scripted) -> None:
    cli.env = FUZZY | {"TOOLSCRIPT_LOG_LEVEL": "debug"}
    mail = held_back(scripted, "mail", scripted(SEND_MAIL))
    cli.configure(files=scripted(READ_FILE), mail=mail)
    answers: list[tuple[int, Any]] = []

    def call(url: str) -> None:
        headers = {"Content-Type": "application/json"}
        body, path = b"{}", "/tools/mail__send_mail"
        answers.append(fetch(url, path, method="POST", headers=headers, body=body))

    with start(cli) as process:
        try:
            url = cli.record()["url"]
            until(lambda: fetch(url, "/health")[1]["tools"], "the first server is indexed")
            calling = threading.Thread(target=call, args=(url,))
            calling.start()
            assert process.stderr
            assert any("mail__send_mail: begun" in line for line in process.stderr)
            process.terminate()
            assert any("stopping when 1 requests" in line for line in process.stderr)
            assert ready(url) == (503, "the gateway is closing down; try again", "5")
            assert fetch(url, "/live") == LIVE
            assert fetch(url, "/tools")[0] == 503
            (scripted.directory / "mail").touch()
            calling.join(PATIENCE_S)
            assert [status for status, _ in answers] == [200], answers
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
