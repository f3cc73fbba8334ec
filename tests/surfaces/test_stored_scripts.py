"""Scripts that the user stores: found, pinned, reviewed and called like tools."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.support import (
    FUZZY,
    WRITES,
    Cli,
    Scripted,
    create_token,
    fetch,
    processes,
    stop_all,
    tool,
    until,
)
from tests.surfaces.mcp.test_mcp import talk

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
READS = {"annotations": {"readOnlyHint": True}}
DOUBLE = """---
name: double-twice
description: Doubles a number, twice, by way of the echo server
class: read
parameters:
  type: object
  properties:
    number: {type: integer}
  required: [number]
---
once = await tools.files.echo(n=arguments["number"] * 2)
(await tools.files.echo(n=once["arguments"]["n"] * 2))["arguments"]["n"]
"""
SAVES = DOUBLE.replace("double-twice", "saves").replace("tools.files.echo", "tools.files.save")


@pytest.fixture
def cli(tmp_path: Path) -> Generator[Cli]:
    cli = Cli(tmp_path, FUZZY)
    server = Scripted(tmp_path)(
        tool("echo", inputSchema=NUMBER) | READS,
        tool("save", inputSchema=NUMBER) | WRITES,
        calls=str(tmp_path / "calls"),
    )
    cli.configure(files=server)
    yield cli
    stop_all([cli.record()["pid"]] if cli.records else [])
    assert not processes(str(tmp_path))


def add(cli: Cli, text: str, name: str = "script.py") -> str:
    (cli.home / name).write_text(text, "utf-8")
    done = cli("scripts", "add", name)
    assert done.returncode == 0, done.stderr
    return done.stdout


def call(cli: Cli, name: str, headers: dict[str, str] | None = None, **arguments: Any) -> Any:
    url, body = cli.record()["url"], json.dumps(arguments).encode()
    headers = {"Content-Type": "application/json", **(headers or {})}
    return fetch(url, f"/tools/{name}", method="POST", headers=headers, body=body)


def test_a_stored_script_is_found_called_held_and_removed(cli: Cli) -> None:
    assert add(cli, DOUBLE) == "added scripts__double-twice\n"
    assert cli.json("scripts", "list")["scripts"][0]["tool"] == "scripts__double-twice"
    url = cli.start_gateway()
    [hit, *_] = cli.json("search", "double twice")["results"]
    assert hit["toolId"] == "scripts__double-twice"
    status, result = call(cli, "scripts__double-twice", number=3)
    assert (status, result["content"][0]["text"]) == (200, "12"), result
    status, result = call(cli, "scripts__double-twice", number="three")
    assert status == 400
    assert "number" in result["error"]

    async def work(client: Any) -> None:
        given = {"tool": "scripts__double-twice", "arguments": {"number": 5}}
        done = await client.call_tool("read_tool", given)
        assert done.content[0].text == "20"

    talk(f"{url}/mcp/search", work)
    rows = fetch(url, "/activity", {"limit": 3})[1]["calls"]
    assert [row["tool"] for row in rows] == ["scripts__double-twice", "files__echo", "files__echo"]

    assert add(cli, DOUBLE.replace("* 2", "* 3")) == "replaced scripts__double-twice\n"
    until(lambda: call(cli, "scripts__double-twice", number=3)[0] == 403, "the change is held")
    held = cli("review")
    assert "scripts__double-twice" in held.stdout
    assert "[-2)-]{+3)+}" in held.stdout
    assert cli("approve", "scripts__double-twice").returncode == 0
    until(lambda: call(cli, "scripts__double-twice", number=3)[0] == 200, "it is approved")
    assert call(cli, "scripts__double-twice", number=3)[1]["content"][0]["text"] == "27"
    assert cli("scripts", "remove", "double-twice").stdout == "removed scripts__double-twice\n"
    until(lambda: call(cli, "scripts__double-twice", number=3)[0] == 404, "it is gone")


def test_a_stored_script_may_do_what_its_class_and_its_caller_may(cli: Cli) -> None:
    add(cli, SAVES)
    add(cli, DOUBLE)
    cli.start_gateway()
    result = call(cli, "scripts__saves", number=3)[1]
    assert result["isError"]
    assert "files__save is a write tool, and this call is for read tools" in str(result)
    token = create_token(cli, "--tool", "scripts__double-twice")["token"]
    result = call(cli, "scripts__double-twice", {"Authorization": f"Bearer {token}"}, number=3)[1]
    assert "has no attribute `files`" in str(result)
    assert not (cli.home / "calls").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("print(1)", "a script begins with ---"),
        ("---\nname: [a\n---\n1", "its front matter is no YAML"),
        ("---\nname: A b\ndescription: x\n---\n1", "its name is 'A b'; give it one of small"),
        ("---\nname: off\ndescription: x\n---\n1", "its name is False in YAML; put the name in q"),
        ("---\nname: 12\ndescription: x\n---\n1", "its name is 12 in YAML; put the name in quotes"),
        ("---\nname:\ndescription: x\n---\n1", "its name is ''; give it one of small"),
        ("---\nname: a\n---\n1", "it has no description"),
        ("---\nname: a\ndescription: ' '\n---\n1", "it has no description"),
        ("---\nname: a\ndescription: b\nparameters: {n: 3}\n---\n1", "no JSON Schema of an object"),
        ("---\nname: a\ndescription: b\nclass: any\n---\n1", "choose one of read, write"),
        ("---\nname: a\ndescription: b\nclas: read\n---\n1", "did you mean 'class'?"),
        (DOUBLE + "if once\n    print(1)\n", "line 13: Expected `:`, found newline; correct it"),
        (DOUBLE + "def f():\n    yield 1\n", "line 14: The monty syntax parser does not yet"),
    ],
)
def test_a_file_that_is_no_script_is_refused_in_one_line(
    tmp_path: Path, text: str, message: str
) -> None:
    missing = Cli(tmp_path)("scripts", "add", "a.py")
    assert (missing.returncode, "a.py cannot be read: No such" in missing.stderr) == (2, True)
    (tmp_path / "a.py").write_text(text)
    done = Cli(tmp_path)("scripts", "add", "a.py")
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert message in line
    assert "a.py" in line
    assert not list((tmp_path / ".toolscript").glob("scripts/*"))


def test_a_script_that_is_not_stored_is_not_removed(cli: Cli) -> None:
    done = cli("scripts", "remove", "nope")
    said = "toolscript: no script 'nope' is stored; see: toolscript scripts list\n"
    assert (done.returncode, done.stderr) == (2, said)
