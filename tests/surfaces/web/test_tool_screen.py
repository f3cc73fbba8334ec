"""A tool's screen: what a model sees of it, code that calls it, its calls and neighbours."""

import json
import shlex
from collections.abc import Generator
from typing import Any

import pytest
from tests.support import WRITES, Cli, Scripted, fetch, tool, until
from tests.surfaces.web.browser import Browser

READS = {"annotations": {"readOnlyHint": True}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "The file.", "examples": ["it's"]},
        "lines": {"type": "integer", "default": 10},
        "mode": {"enum": ["fast", "slow"]},
    },
    "required": ["path", "mode"],
}
DIGITS: dict[str, Any] = {
    "type": "object",
    "properties": {"far": {"$ref": f"#/allOf/{'9' * 5000}"}},
    "allOf": [{}],
}
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Cli, Browser]]:
    home = tmp_path_factory.mktemp("tools")
    cli, scripted = Cli(home), Scripted(home)
    files = scripted(
        tool("read", "Read a file", inputSchema=SCHEMA, **READS),
        tool("write", "Write a file", **WRITES),
        tool("digits", "Refer far", inputSchema=DIGITS, **READS),
        tool("numbers", "Return numbers", **READS),
    )
    cli.configure(files=files)
    browser = Browser(cli.start_gateway())
    with cli:
        yield cli, browser.log_in(cli)


@pytest.fixture
def browser(site: tuple[Cli, Browser]) -> Browser:
    return site[1]


def test_a_schema_that_is_hard_to_read_has_an_example(browser: Browser) -> None:
    assert "files__digits" in browser.page("/ui/tools/files__digits").all("pre")[0].text


def test_the_examples_work(browser: Browser, site: tuple[Cli, Browser]) -> None:
    page = browser.page("/ui/tools/files__read")
    curl, command, typescript, python, *_ = [each.text for each in page.all("pre")][-6:]
    assert curl.startswith(f"curl {browser.url}/tools/files__read")
    assert "await tools.files.read({" in typescript
    assert "tools.files.read(" in python
    words = shlex.split(command)
    done = site[0](*words[1:])
    assert done.returncode == 0, done.stderr
    assert json.loads(words[-1])["mode"] == "fast"
    body = shlex.split(curl)[-1].encode()
    path = shlex.split(curl)[1].removeprefix(browser.url)
    assert fetch(browser.url, path, method="POST", headers=JSON, body=body)[0] == 200


def test_the_page_calls_no_tool(browser: Browser) -> None:
    assert browser.send("/ui/tools/files__numbers").status == 404


def test_calls_and_neighbours_of_a_tool(browser: Browser, site: tuple[Cli, Browser]) -> None:
    owner = {"Authorization": f"Bearer {site[0].record()['key']}"}
    for caller in (owner, {}):
        for name in ("numbers", "write") * 2:
            headers = {**JSON, **caller, "Toolscript-Session": "one"}
            path = f"/tools/files__{name}"
            assert fetch(browser.url, path, method="POST", headers=headers, body=b"{}")[0] == 200
    answer = browser.open("/ui/tools/files__write.json").json
    assert answer["figures"]["calls"] == len(answer["calls"]) == 4
    assert answer["figures"]["errors"] == 0

    def is_learned() -> bool:  # calls are learned beside the answers
        related = browser.open("/ui/tools/files__write.json").json["related"]
        return "files__numbers" in {each["tool"] for each in related["before"]}

    until(is_learned, "one is used before the other")
    assert "used right before it" in browser.page("/ui/tools/files__write").one("main").text


def test_a_tool_that_is_not_there(browser: Browser) -> None:
    answer = browser.open("/ui/tools/files__reed")
    assert answer.status == 404
    assert "files__read" in answer.page.one("main").text
