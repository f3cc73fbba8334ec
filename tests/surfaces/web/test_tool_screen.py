"""A tool's screen: a form from its schema, and what comes of calls."""

import base64
import json
from collections.abc import Generator
from typing import Any

import pytest
from tests.support import WRITES, Cli, Scripted, fetch, processes, stop_all, tool, until
from tests.surfaces.web.browser import Browser

from toolscript.errors import ArgumentsError
from toolscript.surfaces.web.tool_form import FormField, arguments_of, fields_of

READS = {"annotations": {"readOnlyHint": True}}
PIXEL = base64.b64encode(b"\x89PNG not really").decode()
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "The file."},
        "lines": {"type": "integer", "default": 10},
        "share": {"type": "number"},
        "mode": {"enum": ["fast", "slow"]},
        "deep": {"type": "boolean"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "filter": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
    "required": ["path", "mode"],
}
ODD: list[dict[str, Any]] = [
    {},
    {"type": "array"},
    {"properties": 3},
    {"$ref": "#"},
    {"anyOf": [{}, True]},
]
DIGITS: dict[str, Any] = {
    "type": "object",
    "properties": {"far": {"$ref": f"#/allOf/{'9' * 5000}"}},
    "allOf": [{}],
}
RESULTS: dict[str, Any] = {
    "picture": {"content": [{"type": "image", "mimeType": "image/png", "data": PIXEL}]},
    "vector": {"content": [{"type": "image", "mimeType": "image/svg+xml", "data": PIXEL}]},
    "fails": {"content": [{"type": "text", "text": "no such file"}], "isError": True},
    "numbers": {"content": [], "structuredContent": {"count": 3}},
    "long": {"content": [{"type": "text", "text": "x" * 50_000}]},
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Cli, Browser]]:
    home = tmp_path_factory.mktemp("tools")
    cli, scripted = Cli(home), Scripted(home)
    files = scripted(
        tool("read", "Read a file", inputSchema=SCHEMA, **READS),
        tool("wipe", "Delete everything"),
        tool("write", "Write a file", **WRITES),
        tool("digits", "Refer far", inputSchema=DIGITS, **READS),
        *(tool(name, f"Return {name}", **READS) for name in RESULTS),
        results=RESULTS,
    )
    cli.configure(files=files)
    browser = Browser(cli.start_gateway())
    try:
        yield cli, browser.log_in(cli)
    finally:
        stop_all([cli.record()["pid"]])
        assert not processes(str(home))


@pytest.fixture
def browser(site: tuple[Cli, Browser]) -> Browser:
    return site[1]


def test_a_schema_that_is_hard_to_read_gives_a_form(browser: Browser) -> None:
    form = browser.page("/ui/tools/files__digits").one("form", class_="arguments")
    assert [each.text for each in form.all("label")][:1] == ["far"]


def test_the_form_is_made_from_the_schema(browser: Browser) -> None:
    form = browser.page("/ui/tools/files__read").one("form", class_="arguments")
    labels = [each.text for each in form.all("label")]
    assert labels == [
        "path required",
        "mode required",
        "lines",
        "share",
        "deep",
        "note",
        "filter",
    ]
    assert form.one("input", name="arg.lines").attributes["placeholder"] == "10"
    choices = [each.text for each in form.one("select", name="arg.mode").all("option")]
    assert choices == ["", '"fast"', '"slow"']
    assert "required" in form.one("textarea", name="arg.path").attributes


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("path", " a b ", " a b "),
        ("lines", "3", 3),
        ("share", "0.5", 0.5),
        ("mode", '"fast"', "fast"),
        ("deep", "false", False),
        ("note", "line\r\nnext", "line\nnext"),
        ("filter", '{"name": "x"}', {"name": "x"}),
    ],
)
def test_a_field_gives_a_value_of_its_kind(name: str, given: str, value: object) -> None:
    fields = fields_of(SCHEMA)
    assert arguments_of(fields, {f"arg.{name}": [given]}) == {name: value}
    assert arguments_of(fields, {f"arg.{name}": ["  "]}) == {}


def test_what_is_no_value_of_its_kind_is_one_line() -> None:
    fields = fields_of(SCHEMA)
    with pytest.raises(ArgumentsError, match="lines: 'many' is not JSON"):
        arguments_of(fields, {"arg.lines": ["many"]})
    with pytest.raises(ArgumentsError, match="no JSON object"):
        arguments_of(fields, {"json": ["[1]"]})
    assert arguments_of(fields, {"json": ['{"path": "x"}'], "arg.path": ["y"]}) == {"path": "x"}


@pytest.mark.parametrize("schema", ODD)
def test_any_schema_has_a_form(schema: dict[str, Any]) -> None:
    assert all(isinstance(each, FormField) for each in fields_of(schema))


def test_a_call_shows_what_came_of_it(browser: Browser) -> None:
    answer = browser.send(
        "/ui/tools/files__read", **{"arg.path": "a.txt", "arg.mode": '"fast"', "arg.lines": "2"}
    )
    result = answer.page.one("section", id="result")
    assert result.one("span", class_="badge").text == "ok"
    sent = json.loads(result.one("pre").text)
    assert sent["arguments"] == {"path": "a.txt", "mode": "fast", "lines": 2}
    assert "tokens" in result.text
    assert answer.page.one("textarea", name="arg.path").text == "a.txt", "the form keeps its values"


def test_the_same_call_elsewhere(browser: Browser, site: tuple[Cli, Browser]) -> None:
    page = browser.send("/ui/tools/files__read", **{"arg.path": "it's", "arg.mode": '"slow"'}).page
    curl, command, typescript, python, *_ = [e.text for e in page.all("pre")][-6:]
    assert curl.startswith(f"curl {browser.url}/tools/files__read")
    assert 'await tools.files.read({ path: "it\'s", mode: "slow" })' in typescript
    assert "tools.files.read(" in python
    import shlex  # noqa: PLC0415 - only here

    words = shlex.split(command)
    done = site[0](*words[1:])
    assert done.returncode == 0, done.stderr
    assert "it's" in done.stdout
    body = shlex.split(curl)[-1].encode()
    headers = {"Content-Type": "application/json"}
    path = shlex.split(curl)[1].removeprefix(browser.url)
    assert fetch(browser.url, path, method="POST", headers=headers, body=body)[0] == 200


def test_long_arguments_are_not_shown_as_code(browser: Browser) -> None:
    path = "long" * 1024
    page = browser.send("/ui/tools/files__read", **{"arg.path": path, "arg.mode": '"slow"'}).page
    assert page.one("textarea", name="arg.path").text == path
    calls = [each.text for each in page.all("pre")][-6:]
    assert calls[0].startswith("curl ")
    assert not [each for each in calls if path in each]
    assert "With an example" in page.one("main").text


def test_arguments_that_do_not_fit_are_told(browser: Browser) -> None:
    answer = browser.send("/ui/tools/files__read", **{"arg.path": "a"})
    result = answer.page.one("section", id="result")
    assert "mode is missing" in result.text
    assert result.one("span", class_="badge").text == "not called"


def test_a_destructive_tool_is_called_only_for_sure(browser: Browser) -> None:
    assert "required" in browser.page("/ui/tools/files__wipe").one("input", name="sure").attributes
    refused = browser.send("/ui/tools/files__wipe").page.one("section", id="result").text
    assert "destructive" in refused
    done = browser.send("/ui/tools/files__wipe", sure="on").page.one("section", id="result")
    assert done.one("span", class_="badge").text == "ok"
    assert not browser.page("/ui/tools/files__write").all("input", name="sure")


def test_results_of_every_kind(browser: Browser) -> None:
    def called(name: str) -> Any:
        return browser.send(f"/ui/tools/files__{name}").page.one("section", id="result")

    assert called("fails").one("span", class_="badge").text == "tool error"
    assert json.loads(called("numbers").one("pre").text) == {"count": 3}
    long = called("long")
    assert len(long.one("pre").text) == 20_000
    assert "30,000 more characters" in long.text
    image = called("picture").one("img").attributes["src"] or ""
    shown = browser.open(image)
    assert shown.headers["content-type"] == "image/png"
    assert Browser(browser.url).open(image).status == 404, "only for who made the call"
    assert not called("vector").all("img"), "an SVG may hold scripts"


def test_calls_and_neighbours_of_a_tool(browser: Browser) -> None:
    for name in ("numbers", "write", "numbers", "write"):
        browser.send(f"/ui/tools/files__{name}")
    answer = browser.open("/ui/tools/files__write.json").json
    assert answer["figures"]["calls"] == len(answer["calls"]) >= 2
    assert answer["figures"]["errors"] == 0
    other = {"Content-Type": "application/json", "Toolscript-Session": "other"}
    for name in ("numbers", "write"):
        path = f"/tools/files__{name}"
        assert fetch(browser.url, path, method="POST", headers=other, body=b"{}")[0] == 200

    def is_learned() -> bool:  # calls are learned beside the answers
        related = browser.open("/ui/tools/files__write.json").json["related"]
        return "files__numbers" in {each["tool"] for each in related["before"]}

    until(is_learned, "one is used before the other")
    assert "used right before it" in browser.page("/ui/tools/files__write").one("main").text


def test_a_tool_that_is_not_there(browser: Browser) -> None:
    answer = browser.open("/ui/tools/files__reed")
    assert answer.status == 404
    assert "files__read" in answer.page.one("main").text
