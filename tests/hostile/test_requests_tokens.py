"""Tokens that are lost, revoked or unreadable: rows H5, L3 and L16."""

import json
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import FUZZY, READ_FILE, SEND_MAIL, Cli, Scripted, fetch, until, until_known
from toolscript.config.access_tokens import TokenStore
from toolscript.config.settings import load_settings
from toolscript.postgres.shared_stores import open_stores
from toolscript.types import EVERYTHING, Grant

pytestmark = pytest.mark.both_storages

FILES = Grant(servers=("files",))


@pytest.fixture
def guarded(cli: Cli, scripted: Scripted) -> Cli:
    """A gateway of two servers, still without a token."""
    cli.env = FUZZY
    cli.configure(files=scripted(READ_FILE), mail=scripted(SEND_MAIL))
    cli.start_gateway()
    return cli


def in_files(cli: Cli) -> TokenStore:
    """The tokens of the gateway's configuration, as its owner's commands change them."""
    [record] = cli.records
    return TokenStore(record.parent.parent, record.stem.removeprefix("gateway-"))


@contextmanager
def store(cli: Cli) -> Generator[TokenStore]:
    """The same, wherever they are."""
    if not cli.storage:
        yield in_files(cli)
        return
    shared = open_stores(load_settings({}, cli.environment()))
    yield TokenStore(cli.home / "unused", "unused", shared.records("tokens"))
    shared.close()


def made(cli: Cli, grant: Grant = EVERYTHING) -> str:
    with store(cli) as tokens:
        token = tokens.create(grant)[1]
    until_known(cli, token)
    return token


def ask(cli: Cli, path: str, token: str = "") -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return fetch(cli.record()["url"], path, headers=headers)


def clear(cli: Cli) -> None:
    with store(cli) as tokens:
        tokens.clear()


def revoke_all(cli: Cli) -> None:
    with store(cli) as tokens:
        for token in tokens.all():
            tokens.revoke(token.id)


def path(cli: Cli) -> Path:
    return in_files(cli).path


def delete_file(cli: Cli) -> None:
    path(cli).unlink()


def delete_folder(cli: Cli) -> None:
    shutil.rmtree(path(cli).parent)


# H5


def test_h5_without_its_last_token_a_gateway_stays_closed(guarded: Cli) -> None:
    """To everybody, the bearer of what was revoked included, until the owner opens it."""
    ways: list[Callable[[Cli], None]] = [revoke_all]
    if not guarded.storage:  # a database has no file that could be lost
        ways += [delete_file, delete_folder]
    for lose in ways:
        token = made(guarded, FILES)
        assert ask(guarded, "/tools", token)[0] == 200
        lose(guarded)
        until(lambda token=token: ask(guarded, "/tools", token)[0] == 401, "it is refused")
        assert ask(guarded, "/tools")[0] == 401
        clear(guarded)
        until(lambda: ask(guarded, "/tools")[0] == 200, "it is open")


def test_h5_the_owner_is_told_and_goes_on(guarded: Cli) -> None:
    made(guarded, FILES)
    revoke_all(guarded)
    assert "toolscript token off" in guarded("token", "list").stdout
    assert guarded("list-tools").returncode == 0
    assert "was started with --open" in guarded("token", "off").stdout
    until(lambda: ask(guarded, "/tools")[0] == 200, "it is open")


def test_h5_a_restart_opens_nothing(guarded: Cli) -> None:
    made(guarded)
    if guarded.storage:
        revoke_all(guarded)
    else:
        delete_file(guarded)
    assert guarded("gateway", "stop").returncode == 0
    guarded.start_gateway()
    assert ask(guarded, "/tools")[0] == 401


# L3


@pytest.mark.files  # a database's content is checked by the database
def test_l3_a_damaged_file_is_not_named_to_strangers(guarded: Cli) -> None:
    """The log names it, once, and so does the owner's own command."""
    token = made(guarded)
    file = path(guarded)
    file.write_text("{", "utf-8")
    for _ in range(3):
        status, answer = ask(guarded, "/tools", token)
        assert (status, answer["type"]) == (503, "TokenFileError")
        assert str(guarded.home) not in answer["error"]
    assert ask(guarded, "/health") == (200, {"status": "ready"})
    assert str(file) in guarded("token", "list").stderr
    [log] = guarded.home.rglob("gateway-*.log")
    assert log.read_text("utf-8").count(str(file)) == 1


# L16


def test_l16_a_token_of_one_server_sees_its_own_figures(guarded: Cli) -> None:
    """Of what was learned with other tools, and of others' requests, nothing."""
    whole, mine = made(guarded), made(guarded, FILES)
    url = guarded.record()["url"]

    def send(path: str, token: str, value: Any) -> Any:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        body = json.dumps(value).encode()
        status, answer = fetch(url, path, method="POST", headers=headers, body=body)
        assert status == 200
        return answer

    def searched(token: str) -> dict[str, Any]:
        arguments = {"query": "read", "context_tools": ["files__read_file"]}
        call = {"method": "tools/call", "params": {"name": "search_tools", "arguments": arguments}}
        result = send("/message", token, call)["result"]
        return json.loads(result["content"][0]["text"])["meta"]

    send(
        "/graph/import", whole, {"workflows": [{"steps": ["mail__send_mail", "mail__send_mail_2"]}]}
    )
    assert searched(whole)["graph_edges"] == 1
    assert (searched(mine)["graph_edges"], searched(mine)["alpha"]) == (0, 1)
    send("/graph/import", whole, {"workflows": [{"steps": ["files__read_file", "files__wipe"]}]})
    assert searched(whole)["graph_edges"] == 2
    assert searched(mine)["graph_edges"] == 1

    ask(guarded, "/servers", whole)
    text = ask(guarded, "/metrics", mine)[1]
    assert 'route="/message"' in text
    assert 'route="/graph/import"' not in text
    assert 'route="/servers"' not in text
    assert "process_" not in text
    assert 'route="/servers"' in ask(guarded, "/metrics", whole)[1]
