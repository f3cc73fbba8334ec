"""``toolscript hook``: what Claude Code shows a model beside a prompt."""

import json
from collections.abc import Generator
from typing import Any

import pytest
from tests.support import FUZZY, READ_FILE, SEND_MAIL, Cli, Scripted, fetch, tool

LONG = tool("x" * 90, "Polishes the silver spoons of the house")


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cli]:
    home = tmp_path_factory.mktemp("hook")
    cli = Cli(home, FUZZY)
    scripted = Scripted(home)
    copies = [tool(f"read_file_{n}", READ_FILE["description"]) for n in range(4)]
    cli.configure(files=scripted(READ_FILE, *copies), mail=scripted(SEND_MAIL, LONG))
    with cli:
        cli.start_gateway()
        cli("search", "wait until it is ready")
        yield cli


def told(cli: Cli, prompt: Any, *arguments: str, **more: Any) -> str:
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": prompt, **more}
    done = cli("hook", *arguments, given=json.dumps({"cwd": str(cli.home), **event}), cwd=cli.home)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_prompt_is_answered_with_the_names_of_the_tools_that_fit(cli: Cli) -> None:
    line = told(cli, "send an e-mail message to somebody")
    assert line == "Tools that fit, for mcp__toolscript__search_tools: select:mail__send_mail\n"
    line = told(cli, "send an e-mail message", "--exposure", "all", "--name", "ts")
    assert line == "Tools that fit; load them with: select:mcp__ts__mail__send_mail\n"
    three = told(cli, "read the contents of a file from disk", "--threshold", "0.1")
    assert three.count("files__read_file") == 3
    select = three.strip().partition(": ")[2]
    found = fetch(cli.record()["url"], "/search", {"q": select})[1]["results"]
    assert {each["toolId"] for each in found} == {*select.removeprefix("select:").split(",")}


def test_a_long_name_is_the_one_that_the_client_has(cli: Cli) -> None:
    line = told(cli, "polish the silver spoons of the house", "--exposure", "all")
    name = line.strip().partition("select:mcp__toolscript__")[2]
    assert name.startswith("mail__xxx")
    assert len(name) <= 46
    found = cli("describe", name)
    assert found.returncode == 0, found.stderr


def test_nothing_below_the_threshold_is_named(cli: Cli) -> None:
    assert told(cli, "hum a tune") == ""
    assert told(cli, "send an e-mail message to somebody", "--threshold", "0.99") == ""


@pytest.mark.parametrize("prompt", [None, 3, "", " ", "x" * 60_000, "\0\ud800"])
def test_an_odd_prompt_gets_nothing(cli: Cli, prompt: Any) -> None:
    assert told(cli, prompt) == ""


def test_without_a_gateway_or_an_event_it_is_silent(cli: Cli, tmp_path: Any) -> None:
    for given in ("", "{", "[]", "{}", '{"prompt": "send mail", "cwd": "/nowhere/at/all"}'):
        done = cli("hook", given=given)
        assert (done.returncode, done.stderr) == (0, ""), given
    lonely = Cli(tmp_path, FUZZY)
    assert told(lonely, "send an e-mail message") == ""
    lonely.configure(mail={"command": "no-such"})
    assert told(lonely, "send an e-mail message") == ""
    assert lonely.records == []
    broken = {"TOOLSCRIPT_SEARCH_THRESHOLD": "many"}
    done = cli("hook", given=json.dumps({"prompt": "send mail"}), env=broken)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
