"""A newcomer does what the guide to several gateways says, step by step."""

import os
import shlex
import signal
from collections.abc import Generator
from itertools import count
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, fences
from tests.postgres_server import PostgresServer
from tests.support import FUZZY, READ_FILE, Cli, Scripted, alive, fetch, stop_all, until
from toolscript.postgres import schema

PAGE = DOCS / "guides" / "scale.md"
_NUMBERS = count(1)


def steps() -> dict[str, list[list[str]]]:
    """The commands of the guide by the headings that they stand under, in order."""
    text = PAGE.read_text("utf-8").splitlines()
    found: dict[str, list[list[str]]] = {}
    for fence in fences(PAGE):
        above = text[: fence.line]
        heading = next(line[3:] for line in reversed(above) if line.startswith("## "))
        found.setdefault(heading, []).extend(map(shlex.split, fence.text.splitlines()))
    return found


@pytest.fixture
def fresh_url(postgres: PostgresServer) -> str:
    """The address of a database without any tables."""
    name = f"guide_{next(_NUMBERS)}"
    postgres.execute(f"create database {name}")
    return postgres.url(name)


@pytest.fixture
def machines(tmp_path: Path, fresh_url: str, no_process_left: None) -> Generator[list[Cli]]:
    """Two machines on which the first block of the guide was typed, with their own values."""
    given = {"TOOLSCRIPT_DATABASE": fresh_url, "TOOLSCRIPT_SECRET_KEY": "k" * 44}
    exports = [words[1] for words in steps()["Set it up"] if words[0] == "export"]
    variables = dict(each.split("=", 1) for each in exports) | given
    made: list[Cli] = []
    for number in (1, 2):
        home = tmp_path / f"machine-{number}"
        home.mkdir()
        made.append(Cli(home, {**FUZZY, **variables}))
        made[-1].configure(files=Scripted(tmp_path)(READ_FILE))
    yield made
    stop_all(machine.record()["pid"] for machine in made if machine.records)


def run(cli: Cli, words: list[str]) -> str:
    """What a command of the guide prints. A gateway takes a free port of this machine."""
    assert words[0] == "toolscript"
    if words[1:3] == ["gateway", "start"]:
        return cli.start_gateway()
    done = cli(*words[1:])
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_guide_leads_from_an_empty_database_to_an_upgrade(
    machines: list[Cli], postgres: PostgresServer, fresh_url: str
) -> None:
    one, other = machines
    said = steps()
    token, start = (w for w in said["Set it up"] if w[0] == "toolscript")

    bearer = run(one, token)
    urls = [run(each, start) for each in machines]

    until(lambda: "2 gateways" in one("doctor").stdout, "they know of each other")
    for url in urls:
        answer = fetch(url, "/search?q=read_file", headers={"Authorization": f"Bearer {bearer}"})
        assert answer[0] == 200
        assert [hit["toolId"] for hit in answer[1]["results"]] == ["files__read_file"]
        assert fetch(url, "/search?q=read_file")[0] == 401

    killed = other.record()["pid"]
    os.kill(killed, signal.SIGKILL)
    until(lambda: not alive(killed), "it has ended, and lets go of its lock")
    assert fetch(urls[0], "/ready")[0] == 200

    # What the migrations of the next release leave behind.
    name = fresh_url.rpartition("/")[2]
    next_version = schema.latest() + 1
    added = f"insert into toolscript.schema_version values ({next_version})"  # noqa: S608 - a number
    postgres.execute(added, name)
    for path in other.records:
        path.unlink()
    urls[1] = run(other, start)
    assert [fetch(url, "/ready")[0] for url in urls] == [200, 200]
