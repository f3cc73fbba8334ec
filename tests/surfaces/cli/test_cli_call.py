"""``toolscript call``, run as a process."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support import FUZZY, Cli, Scripted, tool

NEEDS_A = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
MIXED: dict[str, Any] = {
    "content": [
        {"type": "text", "text": "two\nlines"},
        {"type": "image", "data": "aGkh", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///x", "text": "inside"}},
    ],
    "isError": True,
}
STEERING = "hi \x1b[31mRED\x1b[0m \x1b]0;title\x07\x1b[2J\x08\x00\u202e"


@pytest.fixture
def called(cli: Cli, scripted: Scripted) -> Cli:
    """A command line with a server, whose starts are written down, and one that may not start."""
    cli.env = FUZZY
    tools = [tool("echo"), tool("mixed"), tool("needs", inputSchema=NEEDS_A), tool("refuses")]
    errors = {"refuses": {"code": -1, "message": "not today"}}
    server = scripted(*tools, results={"mixed": MIXED}, errors=errors)
    cli.configure(s=server, other=scripted(tool("x"), starts=str(cli.home / "others")))
    return cli


def echoed(done: "subprocess.CompletedProcess[str]") -> Any:
    assert done.returncode == 0, done
    return json.loads(done.stdout)["arguments"]


@pytest.mark.requirement("cli:others")
def test_a_call_without_a_gateway_starts_that_server_only(called: Cli) -> None:
    assert echoed(called("call", "s__echo", '{"a": [1, null]}')) == {"a": [1, None]}
    assert echoed(called("call", "s__echo")) == {}
    assert not (called.home / "others").exists()


def test_nobody_is_asked_without_a_gateway_and_a_terminal(called: Cli) -> None:
    path = called.home / ".toolscript.json"
    value = json.loads(path.read_text("utf-8")) | {"permissions": {"s__echo": "ask"}}
    path.write_text(json.dumps(value), "utf-8")
    done = called("call", "s__echo")
    assert done.returncode == 1
    assert done.stderr.endswith(
        "and nobody can be asked without a gateway; start one: toolscript gateway start\n"
    )


@pytest.mark.requirement("cli:others")
def test_a_call_through_a_gateway(called: Cli) -> None:
    """cli:others: the servers stay as they are."""
    called.start_gateway()
    assert echoed(called("call", "s__echo", '{"a": "ż"}')) == {"a": "ż"}
    assert len((called.home / "others").read_text("utf-8").splitlines()) == 1


@pytest.mark.requirement("cli:others")
def test_what_a_tool_says_and_its_failure(called: Cli) -> None:
    """cli:others: text as it is, what is no text by its kind; the status tells of a failure."""
    done = called("call", "s__mixed")
    assert done.returncode == 1
    assert done.stdout == (
        "two\nlines\n[image, image/png, 3 bytes; --output json has it]\ninside\n"
    )
    whole = called("call", "s__mixed", "--output", "json")
    assert (whole.returncode, json.loads(whole.stdout)) == (1, MIXED)


def test_a_result_without_text_is_not_an_empty_line(called: Cli, scripted: Scripted) -> None:
    results: dict[str, Any] = {
        "fails": {"content": [], "isError": True},
        "blank": {"content": [{"type": "text", "text": ""}], "isError": True},
        "counts": {"content": [], "structuredContent": {"rows": 2}},
    }
    called.configure(s=scripted(*map(tool, results), results=results))
    for name in ("fails", "blank"):
        done = called("call", f"s__{name}")
        said = "toolscript: the tool says that it failed, and not why\n"
        assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
    done = called("call", "s__counts")
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, {"rows": 2}, "")


@pytest.mark.requirement("cli:others")
def test_what_steers_a_terminal_is_in_a_result_only(called: Cli, scripted: Scripted) -> None:
    """cli:others: into a pipe a result is as its tool wrote it; texts about a tool steer none."""
    schema = {"type": "object", "properties": {"a": {"description": STEERING}}}
    says = tool("says", title=STEERING, description=f"{STEERING} says", inputSchema=schema)
    result = {"content": [{"type": "text", "text": STEERING}]}
    called.configure(s=scripted(says, results={"says": result}))
    assert called("call", "s__says").stdout == f"{STEERING}\n"
    for words in (
        ("describe", "s__says"),
        ("search", "says"),
        ("search", "says", "--output", "types"),
        ("get-types",),
        ("list-tools",),
    ):
        done = called(*words)
        assert done.returncode == 0, done
        assert done.stdout.replace("\n", "").isprintable(), done.stdout


def test_arguments_from_standard_input(called: Cli, tmp_path: Path) -> None:
    given = tmp_path / "arguments.json"
    given.write_text('{"a": 1}', "utf-8")
    with given.open("rb") as file:
        done = subprocess.run(
            called.command("call", "s__echo", "-"),
            cwd=called.home,
            env=called.environment(),
            stdin=file,
            capture_output=True,
            text=True,
            check=False,
        )
    assert echoed(done) == {"a": 1}


@pytest.mark.requirement("cli:others")
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nothing"], 2, "no tool is called 'nothing'"),
        (["echo"], 2, "no tool is called 'echo'; the nearest are: s__echo"),
        (["s__ecko"], 2, "no tool is called 's__ecko'; the nearest are: s__echo"),
        (["nobody__x"], 2, "no tool is called 'nobody__x'"),
        (["s__echo", "{"], 2, "the arguments are not JSON: "),
        (["s__echo", "[]"], 2, "the arguments are '[]'; expected a JSON object"),
        (["s__needs", "{}"], 2, "s__needs: a is missing. It takes a (integer, required)"),
        (["s__refuses"], 1, "s: not today"),
    ],
)
def test_what_cannot_be_called(called: Cli, arguments: list[str], code: int, message: str) -> None:
    """cli:others: one line, and the right exit code."""
    done = called("call", *arguments)
    [line] = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (code, "")
    assert line.startswith(f"toolscript: {message}")
